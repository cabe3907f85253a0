"""``ruslo produce``: produce records from stdin or a file."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import click

from ruslo.cli.arguments.completion import complete_topics
from ruslo.cli.arguments.options import (
    Amount,
    acks_option,
    bootstrap_option,
    compression_option,
    examples,
    output_option,
    pairs_callback,
)
from ruslo.cli.terminal.errors import explain
from ruslo.cli.terminal.output import hint, print_json
from ruslo.cli.terminal.progress import Progress
from ruslo.model.errors import KafkaError

if TYPE_CHECKING:
    from ruslo.cli.produce.record_input import InputRecord
    from ruslo.client.librdkafka.producer import RecordMetadata
    from ruslo.client.settings.setting import ConfigValue

_LINGER_MS = 5


@click.command(
    short_help="Produce records from stdin or a file.",
    epilog=examples(
        "echo hello | ruslo produce orders",
        "ruslo produce orders -K : -f orders.txt          # each line is key:value",
        """echo '{"key":"a","value":{"n":1}}' | ruslo produce orders --json""",
        "ruslo produce photos --whole -f cat.jpg -k cat -H type=image/jpeg",
        "ruslo consume orders -e -o json | ruslo produce copy --json",
    ),
)
@click.argument("topic", shell_complete=complete_topics)
@bootstrap_option
@click.option(
    "-f",
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False),
    help="Read records from this file (default: stdin).",
)
@click.option("-K", "--key-delimiter", metavar="TEXT", help="Delimiter between key and value.")
@click.option(
    "-D", "--delimiter", default="\\n", show_default=True, metavar="TEXT", help="Delimiter between records."
)
@click.option("--whole", is_flag=True, help="Send the whole input as one record.")
@click.option("--json", "as_json", is_flag=True, help="Read JSON lines, as printed by 'consume -o json'.")
@click.option("-k", "--key", metavar="TEXT", help="Key of records without a key.")
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    callback=pairs_callback,
    help="Header of every record. Repeatable.",
)
@click.option(
    "-p", "--partition", type=click.IntRange(0), help="Produce to this partition, regardless of the key."
)
@click.option("-Z", "--null", metavar="TEXT", help="Send a key or value that equals TEXT as null.")
@compression_option
@acks_option("0", "1", "all")
@click.option(
    "--timeout",
    "timeout_s",
    type=Amount(0.1),
    default=30.0,
    show_default=True,
    help="Seconds to wait for the acknowledgement of a record.",
)
@output_option
def produce(
    topic: str,
    bootstrap: str,
    path: str | None,
    key_delimiter: str | None,
    delimiter: str,
    whole: bool,
    as_json: bool,
    key: str | None,
    headers: dict[str, str],
    partition: int | None,
    null: str | None,
    compression: str,
    acks: str,
    timeout_s: float,
    output: str,
) -> None:
    """Produce records to TOPIC, by default one per line of stdin.

    The command ends when the input ends and all records are acknowledged. Exit code 1: a record failed.
    """
    from ruslo.cli.arguments.client_settings import client_settings, uses_tls
    from ruslo.cli.arguments.escapes import unescape
    from ruslo.cli.produce.record_input import InputRecord, delimited_records, json_records
    from ruslo.client.librdkafka.producer import Producer
    from ruslo.client.settings.tables import for_producers
    from ruslo.client.wire.listener_probe import check_reachable

    if sum((whole, as_json, key_delimiter is not None)) > 1:
        raise click.UsageError("--whole, --json and --key-delimiter exclude each other. Choose one.")
    try:
        record_end = unescape(delimiter)
        key_end = None if key_delimiter is None else unescape(key_delimiter)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if not record_end or key_end == b"":
        raise click.UsageError(
            "A delimiter cannot be empty. Use --whole to send the whole input as one record."
        )

    fixed_key = None if key is None else os.fsencode(key)
    fixed_headers = [(name, os.fsencode(value)) for name, value in headers.items()]
    outcome = Outcome(topic)
    timeout_ms = max(int(timeout_s * 1000), 2 * _LINGER_MS)
    config: dict[str, ConfigValue] = {
        "client.id": "ruslo-produce",
        "log_level": 2,
        "bootstrap.servers": bootstrap,
        "compression.type": compression,
        "acks": acks,
        "delivery.timeout.ms": timeout_ms,
        "max.block.ms": timeout_ms,
        "request.timeout.ms": min(30_000, timeout_ms - _LINGER_MS),
        "linger.ms": _LINGER_MS,
        **for_producers(client_settings()),
    }
    check_reachable(str(config["bootstrap.servers"]), encrypted=uses_tls(config))
    progress = Progress()
    total_bytes = None if path is None else os.path.getsize(path)
    with _input(path) as stream, Producer(config) as producer:
        if whole:
            records: Iterator[InputRecord] = iter([InputRecord(None, stream.read())])
        elif as_json:
            records = json_records(stream)
        else:
            records = delimited_records(
                stream, record_end, key_end, None if null is None else os.fsencode(null)
            )
        try:
            for record in records:
                producer.produce(
                    topic,
                    record.value,
                    key=fixed_key if record.key is None else record.key,
                    headers=[*fixed_headers, *record.headers],
                    partition=partition if partition is not None else record.partition,
                    timestamp_ms=record.timestamp_ms,
                    on_delivery=outcome.add,
                )
                progress.tick(
                    lambda: f"{outcome.acked:,} acknowledged", lambda: _share_read(stream, total_bytes)
                )
        except ValueError as error:
            problem: str | None = f"{path or 'stdin'}, {error}"
        except KafkaError as error:
            problem = explain(error)
        else:
            problem = None
        # This takes at most delivery.timeout.ms: librdkafka reports every record by then.
        producer.flush()
        progress.clear()
    outcome.report(output)
    if problem is not None:
        sent = " (earlier records were sent)" if outcome.acked else ""
        raise click.ClickException(f"{problem}{sent}")
    if outcome.failed:
        raise click.exceptions.Exit(1)
    hint(
        f"Read the records: ruslo consume {topic} --exit"
        + ("" if bootstrap == "127.0.0.1:9092" else f" -b {bootstrap}")
    )


def _share_read(stream: BinaryIO, total_bytes: int | None) -> float | None:
    """The share of a file that has been read; None for a pipe."""
    return stream.tell() / total_bytes if total_bytes else None


@contextlib.contextmanager
def _input(path: str | None) -> Iterator[BinaryIO]:
    if path is None:
        if sys.stdin.isatty():
            hint("Type records, one per line. Press Ctrl-D to finish.")
        yield sys.stdin.buffer
    else:
        with open(path, "rb") as stream:
            yield stream


class Outcome:
    """Counts acknowledged and failed records."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.acked = 0
        self.failed = 0
        self.first_error: KafkaError | None = None
        self.partitions: dict[int, list[int]] = {}

    def add(self, error: KafkaError | None, record: RecordMetadata) -> None:
        if error is not None:
            self.failed += 1
            self.first_error = self.first_error or error
            return
        self.acked += 1
        entry = self.partitions.setdefault(record.partition, [0, record.offset, record.offset])
        entry[0] += 1
        entry[1] = min(entry[1], record.offset)
        entry[2] = max(entry[2], record.offset)

    def report(self, output: str) -> None:
        if output == "json":
            print_json(
                {
                    "topic": self.topic,
                    "acked": self.acked,
                    "failed": self.failed,
                    "error": None if self.first_error is None else explain(self.first_error),
                    "partitions": [
                        {"partition": p, "records": count, "first_offset": first, "last_offset": last}
                        for p, (count, first, last) in sorted(self.partitions.items())
                    ],
                }
            )
            return
        offsets = ", ".join(
            f"partition {p} " + (f"offset {first}" if first == last else f"offsets {first}..{last}")
            for p, (_, first, last) in sorted(self.partitions.items())
            if first >= 0
        )
        click.echo(f"{self.acked} acknowledged in {self.topic}" + (f": {offsets}" if offsets else ""))
        if self.first_error is not None:
            reason = explain(self.first_error)
            click.echo(f"Error: {self.failed} records failed; the first error: {reason}", err=True)
