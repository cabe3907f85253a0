"""``ruslo txn describe``: the last transaction of a transactional ID."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.duration import shown_duration
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_fields, print_views
from ruslo.client.views.partition_lists import shown_partitions

if TYPE_CHECKING:
    from ruslo.cli.txn.view import TransactionView


@click.command(
    epilog=examples("ruslo txn describe payments-1", "ruslo txn describe payments-1 payments-2 -o json")
)
@click.argument("transactional_ids", nargs=-1, required=True, metavar="TRANSACTIONAL_ID...")
@bootstrap_option
@output_option
def describe(transactional_ids: tuple[str, ...], bootstrap: str, output: str) -> None:
    """Show the last transaction of a transactional ID: producer, state, age and partitions.

    The partitions are those without a transaction marker yet, so a completed transaction has none.
    """
    from ruslo.cli.txn.view import describe_transactions

    views = with_admin(bootstrap, lambda admin: describe_transactions(admin, transactional_ids))
    print_views(views, output, _print_view)


def _print_view(view: TransactionView) -> None:
    from ruslo.cli.terminal.output import shown_time

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
