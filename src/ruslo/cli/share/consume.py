"""``ruslo share consume``: print records of topics as a member of a share group."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.completion import complete_share_groups, complete_topics
from ruslo.cli.arguments.duration import parse_duration_ms
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option, parsed
from ruslo.cli.terminal.output_format import stream_item
from ruslo.cli.terminal.pipes import reader_gone

if TYPE_CHECKING:
    from ruslo.cli.arguments.record_format import Formatter
    from ruslo.client.settings.setting import ClientConfigValue
    from ruslo.client.share.share_record import ShareRecord
    from ruslo.client.views.record_json import ReadRecord

_POLL_S = 0.5
CHOICES = ("accept", "release", "reject", "ask")


@click.command(
    epilog=examples(
        "ruslo share consume orders --group invoices                    # until Ctrl-C",
        "ruslo share consume orders -g invoices -n 10 -o json           # ten records, accepted",
        "ruslo share consume orders -g invoices -n 1 --acknowledge ask  # decide about each record",
        "ruslo share consume orders -g invoices -n 5 --acknowledge release -f '%p@%o %d %s\\n'",
        "ruslo share consume orders -g invoices --timeout 10s --acknowledge reject",
    )
)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics)
@bootstrap_option
@click.option(
    "-g",
    "--group",
    "group_id",
    required=True,
    metavar="GROUP",
    shell_complete=complete_share_groups,
    help="The share group to join.",
)
@click.option(
    "-a",
    "--acknowledge",
    "acknowledge",
    type=click.Choice(CHOICES),
    default="accept",
    show_default=True,
    help="What to do with a record after it is printed. release: keep it locked until the command ends, then "
    "make it available again. ask: decide about each record.",
)
@click.option("-n", "--count", type=click.IntRange(1), help="Stop after this many records.")
@click.option(
    "--timeout",
    "timeout_ms",
    callback=parsed(parse_duration_ms),
    metavar="DURATION",
    help="Stop when no record arrived for this long: 10s, 2m (default: wait until Ctrl-C).",
)
@click.option(
    "-f",
    "--format",
    "format_text",
    metavar="FORMAT",
    help="As for 'ruslo consume': %s value, %k key, %h headers, %t topic, %p partition, %o offset, "
    "%T time in ms, \\n \\t; and %d delivery count.  [default: %s\\n]",
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
    topics: tuple[str, ...],
    bootstrap: str,
    group_id: str,
    acknowledge: str,
    count: int | None,
    timeout_ms: int | None,
    format_text: str | None,
    encoding: str,
    null: str,
    output: str,
) -> None:
    """Join a share group, print records of TOPIC... and acknowledge them.

    Each record goes to one consumer of the group. A record that is printed but not acknowledged, because the
    command was killed, goes to another one when its lock expires. Every delivery counts: a record that was
    released as often as share.delivery.count.limit allows (default: 5) is archived.

    A new group starts at the end of the topics, unless share.auto.offset.reset is set:
    ruslo config set --group GROUP share.auto.offset.reset=earliest
    """
    from ruslo.cli.arguments.client_settings import client_settings, uses_tls
    from ruslo.cli.arguments.record_format import ENCODERS, compile_format
    from ruslo.cli.share.decisions import new_decision
    from ruslo.cli.share.stopping import leaving_on_signals
    from ruslo.client.settings.tables import for_share_consumers
    from ruslo.client.share.share_consumer import ShareConsumer
    from ruslo.client.wire.listener_probe import check_reachable

    if output == "json" and format_text is not None:
        raise click.UsageError("--format and -o exclude each other. Remove one.")
    try:
        write = (
            _json_line
            if output == "json"
            else compile_format(
                "%s\\n" if format_text is None else format_text,
                null=null.encode(),
                encode=ENCODERS[encoding],
                letters={b"d": lambda record: b"%d" % record.delivery_count},
            )
        )
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None
    # Each delivery counts, so with a limit no more records are acquired than are printed.
    strict = count is not None or acknowledge == "ask"
    config: dict[str, ClientConfigValue] = {
        "client.id": "ruslo-share-consume",
        **for_share_consumers(client_settings()),
        "bootstrap.servers": bootstrap,
        "group.id": group_id,
        "share.acknowledgement.mode": "explicit",
        "share.acquire.mode": "record_limit" if strict else "batch_optimized",
        "max.poll.records": 1 if strict else 500,
    }
    check_reachable(bootstrap, encrypted=uses_tls(config))
    with leaving_on_signals(), ShareConsumer(config) as consumer:
        consumer.subscribe(topics)
        decision = new_decision(acknowledge, consumer)
        left, idle_since = count, time.monotonic()
        while left is None or left > 0:
            records = consumer.poll(_POLL_S)
            if not records and reader_gone(sys.stdout.buffer):
                raise BrokenPipeError
            _print(records, write)
            decision.decide(records)
            if decision.is_over:
                break
            if left is not None:
                left -= len(records)
            if records:
                idle_since = time.monotonic()
            elif timeout_ms is not None and time.monotonic() - idle_since > timeout_ms / 1000:
                break
        decision.finish()


def _print(records: list[ShareRecord], write: Formatter) -> None:
    stream = sys.stdout.buffer
    for record in records:
        stream.write(write(record))
    stream.flush()


def _json_line(record: ReadRecord) -> bytes:
    from ruslo.client.share.share_record import ShareRecord
    from ruslo.client.views.record_json import record_fields

    assert isinstance(record, ShareRecord)
    return stream_item(record_fields(record) | {"delivery_count": record.delivery_count}).encode() + b"\n"
