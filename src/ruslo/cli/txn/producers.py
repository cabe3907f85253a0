"""``ruslo txn producers``: active producers of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.arguments.partition_scope import Scope, scopes_callback
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint, print_json, print_table

if TYPE_CHECKING:
    from ruslo.cli.txn.view import ProducerRow
    from ruslo.client.admin.admin import Admin

_HEADERS = ("TOPIC", "PARTITION", "PRODUCER", "EPOCH", "LAST SEQ", "LAST WRITE")


@click.command(
    epilog=examples(
        "ruslo txn producers orders",
        "ruslo txn producers orders:0-3 payments:1",
        "ruslo txn producers orders:0 -o json",
    )
)
@click.argument("scopes", nargs=-1, required=True, metavar="TOPIC[:PARTITIONS]...", callback=scopes_callback)
@bootstrap_option
@output_option
def producers(scopes: list[Scope], bootstrap: str, output: str) -> None:
    """Show the idempotent and transactional producers that partition leaders know.

    TXN START is the first offset of the producer's open transaction in the partition. The smallest one is the
    last stable offset, which read_committed consumers cannot pass. LAST WRITE is the timestamp of the last
    batch or transaction marker of the producer.
    """
    from dataclasses import asdict

    from ruslo.cli.terminal.output import shown_time
    from ruslo.cli.txn.view import producer_rows

    async def gather(admin: Admin) -> list[ProducerRow]:
        return await producer_rows(admin, scopes)

    rows = with_admin(bootstrap, gather)
    if output == "json":
        print_json([asdict(row) for row in rows])
    elif not rows:
        hint("No active idempotent or transactional producers found.")
    else:
        print_table(
            [*_HEADERS, "COORDINATOR EPOCH", "TXN START"],
            [
                (
                    row.topic,
                    row.partition,
                    row.producer_id,
                    row.producer_epoch,
                    row.last_sequence,
                    None if row.last_timestamp_ms is None else shown_time(row.last_timestamp_ms),
                    row.coordinator_epoch,
                    row.txn_start_offset,
                )
                for row in rows
            ],
        )
