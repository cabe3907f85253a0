"""``ruslo consume``: print records of a topic."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import click

from ruslo.cli.arguments.completion import complete_topics
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option, parsed
from ruslo.cli.terminal.output_format import stream_item
from ruslo.cli.terminal.pipes import reader_gone
from ruslo.client.views.position import AtOffset, AtStart, AtTime, BeforeEnd, Position, parse_position

if TYPE_CHECKING:
    from ruslo.cli.arguments.record_format import Formatter
    from ruslo.client.librdkafka.consumer import Consumer
    from ruslo.client.settings.setting import ConfigValue
    from ruslo.model.topics import TopicPartition


@click.command(
    short_help="Print records of a topic.",
    epilog=examples(
        "ruslo consume orders                       # all records, then new ones until Ctrl-C",
        "ruslo consume orders --exit                # all records",
        "ruslo consume orders --from end -n 10      # the next ten records",
        "ruslo consume orders --from 2h --exit      # the last two hours",
        "ruslo consume orders --from -5 -e          # the last five records of each partition",
        "ruslo consume orders -p 0 --from 42 -n 1   # the record at offset 42",
        "ruslo consume orders -f '%t[%p]@%o %T %k=%s headers=%h\\n'",
        "ruslo consume orders -e -o json | jq .value",
    ),
)
@click.argument("topic", shell_complete=complete_topics)
@bootstrap_option
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    help="Only this partition. Repeatable.",
)
@click.option(
    "--from",
    "start",
    callback=parsed(parse_position),
    default="start",
    show_default=True,
    metavar="POSITION",
    help="start, end, an offset (42), records before the end (-5), an age (2h, 30m), "
    "a date and time (2026-03-01T10:00Z), or a timestamp in ms (@1700000000000).",
)
@click.option(
    "--until",
    "until",
    callback=parsed(parse_position),
    metavar="POSITION",
    help="Stop before this position (same syntax as --from).",
)
@click.option(
    "-e",
    "--exit",
    "exit_at_end",
    is_flag=True,
    help="Exit at the end of the topic instead of waiting for new records.",
)
@click.option("-n", "--count", type=click.IntRange(1), help="Stop after this many records.")
@click.option(
    "-f",
    "--format",
    "format_text",
    metavar="FORMAT",
    help="%s value, %k key, %h headers, %t topic, %p partition, %o offset, %T time in ms, "
    "%S and %K lengths, %R length as 4 bytes, \\n \\t \\xHH.  [default: %s\\n]",
)
@click.option(
    "--encoding",
    type=click.Choice(["raw", "hex", "base64"]),
    default="raw",
    show_default=True,
    help="Encoding of keys and values.",
)
@click.option("-Z", "--null", default="", metavar="TEXT", help="Text printed for a null key or value.")
@output_option
def consume(
    topic: str,
    bootstrap: str,
    partitions: tuple[int, ...],
    start: Position,
    until: Position | None,
    exit_at_end: bool,
    count: int | None,
    format_text: str | None,
    encoding: str,
    null: str,
    output: str,
) -> None:
    """Print the records of TOPIC from the start, then new records until Ctrl-C.

    Records of a partition are printed in order. No consumer group is used and no offset is committed.
    """
    from ruslo.cli.arguments.client_settings import client_settings, uses_tls
    from ruslo.cli.arguments.record_format import ENCODERS, compile_format
    from ruslo.client.librdkafka.consumer import Consumer
    from ruslo.client.settings.tables import for_consumers
    from ruslo.client.views.record_json import record_fields
    from ruslo.client.wire.listener_probe import check_reachable

    if output == "json" and format_text is not None:
        raise click.UsageError("--format and -o exclude each other. Remove one.")
    try:
        write = (
            (lambda record: stream_item(record_fields(record)).encode() + b"\n")
            if output == "json"
            else compile_format(
                "%s\\n" if format_text is None else format_text, null=null.encode(), encode=ENCODERS[encoding]
            )
        )
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None

    config: dict[str, ConfigValue] = {
        "client.id": "ruslo-consume",
        "log_level": 2,
        "bootstrap.servers": bootstrap,
        "auto.offset.reset": "none",
        "enable.partition.eof": True,
        "max.poll.records": 1000,
        "allow.auto.create.topics": False,
        **for_consumers(client_settings()),
    }
    check_reachable(str(config["bootstrap.servers"]), encrypted=uses_tls(config))
    with Consumer(config) as consumer:
        chosen = _chosen_partitions(consumer, topic, partitions)
        begin = _resolve(consumer, chosen, start)
        end = None if until is None else _resolve(consumer, chosen, until)
        if exit_at_end or end is not None:
            last = {partition: consumer.offset_range(partition)[1] for partition in chosen}
            if end is not None:
                last = {p: min(offset, end[p]) if exit_at_end else end[p] for p, offset in last.items()}
        else:
            last = None
        Reader(consumer, begin, last, count).copy_to(sys.stdout.buffer, write)


def _chosen_partitions(consumer: Consumer, topic: str, numbers: tuple[int, ...]) -> list[TopicPartition]:
    from ruslo.model.topics import TopicPartition

    existing = consumer.partitions_for(topic)
    missing = sorted(set(numbers) - set(existing))
    if missing:
        raise click.ClickException(
            f"Topic {topic!r} has no partition {missing[0]}. Use a partition from 0 to {existing[-1]}"
        )
    return [TopicPartition(topic, number) for number in sorted(set(numbers)) or existing]


def _resolve(
    consumer: Consumer, partitions: list[TopicPartition], position: Position
) -> dict[TopicPartition, int]:
    ranges = {partition: consumer.offset_range(partition) for partition in partitions}
    match position:
        case AtStart():
            return {partition: low for partition, (low, _) in ranges.items()}
        case BeforeEnd(records):
            return {partition: max(low, high - records) for partition, (low, high) in ranges.items()}
        case AtTime(timestamp_ms):
            found = consumer.offsets_for_times(dict.fromkeys(partitions, timestamp_ms))
            return {p: offset if offset >= 0 else ranges[p][1] for p, offset in found.items()}
        case AtOffset(offset):
            # An offset past the end of one partition means its end; past the end of all it is a mistake.
            if all(not low <= offset <= high for low, high in ranges.values()):
                spans = ", ".join(f"{p.partition}: {low}..{high}" for p, (low, high) in ranges.items())
                raise click.ClickException(
                    f"Offset {offset} is out of range (offsets by partition: {spans}). "
                    f"To use a timestamp in ms, write @{offset}."
                )
            return {p: min(max(offset, low), high) for p, (low, high) in ranges.items()}


@dataclass(eq=False)
class Reader:
    """Copies records to a stream until all partitions reach their end offset, or up to a count."""

    _consumer: Consumer
    _begin: dict[TopicPartition, int]
    _end: dict[TopicPartition, int] | None
    _left: int | None

    def copy_to(self, stream: BinaryIO, write: Formatter) -> None:
        from ruslo.client.librdkafka.consumer import PartitionEnd
        from ruslo.model.topics import TopicPartition

        open_partitions = {
            partition: offset
            for partition, offset in self._begin.items()
            if self._end is None or offset < self._end[partition]
        }
        if not open_partitions:
            return
        self._consumer.assign(open_partitions)
        while open_partitions:
            events = self._consumer.poll_events(0.5)
            if not events and reader_gone(stream):
                raise BrokenPipeError
            for event in events:
                partition = TopicPartition(event.topic, event.partition)
                if partition not in open_partitions:
                    continue
                if self._end is not None and event.offset >= self._end[partition]:
                    # Compaction and transactions leave gaps, so the last offset may not exist.
                    del open_partitions[partition]
                    continue
                if isinstance(event, PartitionEnd):
                    continue
                stream.write(write(event))
                if self._end is not None and event.offset + 1 >= self._end[partition]:
                    del open_partitions[partition]
                if self._left is not None:
                    self._left -= 1
                    if self._left == 0:
                        stream.flush()
                        return
            stream.flush()
        stream.flush()
