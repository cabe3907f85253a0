"""``ruslo share``: share groups, which read topics as queues (KIP-932)."""

from __future__ import annotations

import click

from ruslo.cli.arguments.options import examples
from ruslo.cli.share.by_hand import reject, release
from ruslo.cli.share.config import config
from ruslo.cli.share.consume import consume
from ruslo.cli.share.delete import delete
from ruslo.cli.share.delete_offsets import delete_offsets
from ruslo.cli.share.describe import describe
from ruslo.cli.share.list import list_groups
from ruslo.cli.share.offsets import offsets
from ruslo.cli.share.replay import replay
from ruslo.cli.share.reset_offsets import reset_offsets


@click.group(
    short_help="Show share groups (queues), consume from them, reset and delete them.",
    epilog=examples(
        "ruslo share list --lag",
        "ruslo share describe invoices",
        "ruslo share reset-offsets invoices --topic orders --to-earliest --execute",
    ),
)
def share() -> None:
    """Show share groups, whose members read the same partitions as a queue, and change their offsets."""


for command in (
    list_groups,
    describe,
    offsets,
    consume,
    reject,
    release,
    replay,
    reset_offsets,
    delete,
    delete_offsets,
    config,
):
    share.add_command(command)
