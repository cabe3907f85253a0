"""``ruslo txn``: list, describe, producers; find-hanging and abort have files of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.duration import length_callback, shown_duration
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.arguments.partition_scope import Scope, scopes_callback
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint, print_fields, print_json, print_table
from ruslo.cli.txn.abort import abort
from ruslo.cli.txn.find_hanging import find_hanging
from ruslo.client.views.partition_lists import shown_partitions

if TYPE_CHECKING:
    from ruslo.cli.txn.view import ProducerRow, TransactionView
    from ruslo.client.admin.admin import Admin

STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")


@click.group(
    short_help="See transactions, find and free those that hang.",
    epilog=examples(
        "ruslo txn list --state ongoing",
        "ruslo txn describe payments-1",
        "ruslo txn find-hanging",
        "ruslo txn abort orders 0 --start-offset 42",
    ),
)
def txn() -> None:
    """See the transactions of producers, find those that hold readers up, and end them."""


txn.add_command(find_hanging)
txn.add_command(abort)


@txn.command(
    "list",
    epilog=examples(
        "ruslo txn list",
        "ruslo txn list --state ongoing --longer-than 5m",
        "ruslo txn list --matching 'payments-.*' -o json | jq -r .[].transactional_id",
        "ruslo txn list --producer-id 4001",
    ),
)
@bootstrap_option
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    multiple=True,
    help="Only ids in this state. May be repeated.",
)
@click.option(
    "--producer-id",
    "producer_ids",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only the id that has this producer id. May be repeated.",
)
@click.option(
    "--longer-than",
    "longer_than_ms",
    metavar="DURATION",
    callback=length_callback,
    help="Only transactions that began longer ago, as 90s, 5m or PT1H; open ones unless --state is given.",
)
@click.option(
    "--matching",
    "pattern",
    metavar="REGEX",
    help="Only ids that match as a whole (RE2 syntax, matched by the brokers).",
)
@output_option
def list_transactions(
    bootstrap: str,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than_ms: int | None,
    pattern: str | None,
    output: str,
) -> None:
    """List the transactional ids of all coordinators, with the state of their last transaction.

    --longer-than needs brokers of Kafka 3.8 or newer, --matching of 4.1.
    """
    from ruslo.client.admin.transactions import OPEN_STATES

    # Brokers compare the time in every state: what ended long ago would be listed as open for long.
    wanted = states or (() if longer_than_ms is None else OPEN_STATES)
    found = with_admin(
        bootstrap,
        lambda admin: admin.transactions.list(
            states=wanted, producer_ids=producer_ids, longer_than_ms=longer_than_ms, pattern=pattern
        ),
    )
    if output == "json":
        print_json(
            [
                {
                    "transactional_id": each.transactional_id,
                    "coordinator": each.coordinator_id,
                    "producer_id": each.producer_id,
                    "state": each.state,
                }
                for each in found
            ]
        )
    elif not found:
        hint("There are no such transactions. A producer with a transactional.id makes one.")
    else:
        print_table(
            ["TRANSACTIONAL ID", "COORDINATOR", "PRODUCER", "STATE"],
            [(each.transactional_id, each.coordinator_id, each.producer_id, each.state) for each in found],
        )


@txn.command(
    epilog=examples("ruslo txn describe payments-1", "ruslo txn describe payments-1 payments-2 -o json")
)
@click.argument("transactional_ids", nargs=-1, required=True, metavar="TRANSACTIONAL_ID...")
@bootstrap_option
@output_option
def describe(transactional_ids: tuple[str, ...], bootstrap: str, output: str) -> None:
    """Show the last transaction of a transactional id: its producer, state, age and partitions.

    The partitions are those that still wait for the end: none when the transaction is complete.
    """
    from ruslo.cli.txn.view import describe_transactions

    views = with_admin(bootstrap, lambda admin: describe_transactions(admin, transactional_ids))
    if output == "json":
        print_json([view.as_json() for view in views])
        return
    for number, view in enumerate(views):
        if number:
            click.echo()
        _print_view(view)


def _print_view(view: TransactionView) -> None:
    from ruslo.cli.txn.view import shown_time

    found = view.description
    started = None if found.start_ms is None else shown_time(found.start_ms)
    if view.age_ms is not None:
        started = f"{started} ({shown_duration(view.age_ms)} ago)"
    print_fields(
        [
            ("Transactional id", found.transactional_id),
            ("Coordinator", f"{found.coordinator_id} ({view.coordinator_address})"),
            ("Producer", f"{found.producer_id} (epoch {found.producer_epoch})"),
            ("State", found.state),
            ("Timeout", f"{found.timeout_ms} ms"),
            ("Started", started),
            ("Partitions", shown_partitions(found.partitions) or None),
        ]
    )


@txn.command(
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
