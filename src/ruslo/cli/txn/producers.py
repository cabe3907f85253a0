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
    """Show the idempotent and transactional producers that the leaders of partitions remember.

    TXN START is the first offset of the transaction that a producer has open in the partition; readers of
    committed data get nothing from the smallest of them on. LAST WRITE is the time that the producer gave its
    last batch, or the time of the last transaction's end.
    """
    from dataclasses import asdict

    from ruslo.cli.txn.view import producer_rows, shown_time

    async def gather(admin: Admin) -> list[ProducerRow]:
        return await producer_rows(admin, scopes)

    rows = with_admin(bootstrap, gather)
    if output == "json":
        print_json([asdict(row) for row in rows])
    elif not rows:
        hint("No idempotent or transactional producer wrote there of late.")
    else:
        print_table(
            [
                "TOPIC",
                "PARTITION",
                "PRODUCER",
                "EPOCH",
                "LAST SEQ",
                "LAST WRITE",
                "COORDINATOR EPOCH",
                "TXN START",
            ],
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
