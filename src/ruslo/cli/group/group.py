"""``ruslo group``: consumer groups and their offsets."""

from __future__ import annotations

import click

from ruslo.cli.arguments.options import examples
from ruslo.cli.group.delete import delete
from ruslo.cli.group.delete_offsets import delete_offsets
from ruslo.cli.group.describe import describe
from ruslo.cli.group.list import list_groups
from ruslo.cli.group.members import members
from ruslo.cli.group.reset_offsets import reset_offsets


@click.group(
    short_help="Show consumer lag, reset offsets, delete groups.",
    epilog=examples(
        "ruslo group list --lag",
        "ruslo group describe billing",
        "ruslo group reset-offsets billing --topic orders --to-earliest --execute",
    ),
)
def group() -> None:
    """Show groups, their lag and their members; reset offsets; delete groups."""


for command in (list_groups, describe, members, reset_offsets, delete, delete_offsets):
    group.add_command(command)
