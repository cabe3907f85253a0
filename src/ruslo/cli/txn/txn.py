"""``ruslo txn``: transactions and their producers."""

from __future__ import annotations

import click

from ruslo.cli.arguments.options import examples
from ruslo.cli.txn.abort import abort
from ruslo.cli.txn.describe import describe
from ruslo.cli.txn.find_hanging import find_hanging
from ruslo.cli.txn.list import list_transactions
from ruslo.cli.txn.producers import producers


@click.group(
    short_help="Show transactions, find and abort hanging ones.",
    epilog=examples(
        "ruslo txn list --state ongoing",
        "ruslo txn describe payments-1",
        "ruslo txn find-hanging",
        "ruslo txn abort orders 0 --start-offset 42",
    ),
)
def txn() -> None:
    """Show transactions, find those that block read_committed consumers, and abort them."""


for command in (list_transactions, describe, producers, find_hanging, abort):
    txn.add_command(command)
