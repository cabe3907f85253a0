"""``ruslo group describe``: committed offsets and lag of groups, topology and tasks of streams groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.completion import complete_groups
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_fields, print_table, print_views

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.client.admin.group_descriptions import GroupDescription
    from ruslo.client.views.group_view import GroupView, PartitionRow


@click.command(
    epilog=examples("ruslo group describe billing", "ruslo group describe billing shipping -o json")
)
@click.argument("names", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_groups)
@bootstrap_option
@output_option
def describe(names: tuple[str, ...], bootstrap: str, output: str) -> None:
    """Show committed offsets, lag and members of a group; of a streams group also its topology and tasks.

    LAG is the number of records up to the end of the partition. SECONDS is the timestamp of the newest record
    minus that of the next record to be read; '-' if records have no timestamp.
    """
    from ruslo.cli.offsets.group_types import or_name_the_command
    from ruslo.cli.terminal.progress import Progress

    progress = Progress()

    async def gather(admin: Admin) -> list[GroupView]:
        views: list[GroupView] = []
        for name in dict.fromkeys(names):
            views.append(await or_name_the_command(admin, name, "describe", _describe(admin, name)))
            progress.tick(
                lambda: f"described {len(views)} of {len(names)} groups", lambda: len(views) / len(names)
            )
        progress.clear()
        return views

    views = with_admin(bootstrap, gather)
    print_views(views, output, _print_view)


async def _describe(admin: Admin, name: str) -> GroupView:
    from ruslo.client.views.group_view import describe_group
    from ruslo.client.views.streams_group_view import describe_streams_group
    from ruslo.model.errors import ErrorCode, KafkaError

    try:
        return await describe_group(admin, name)
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        try:
            return await describe_streams_group(admin, name)
        except KafkaError:
            raise error from None


def _print_view(view: GroupView) -> None:
    from ruslo.cli.group.streams import print_streams_group
    from ruslo.client.views.streams_group_view import StreamsGroupView

    found = view.description
    fields: list[tuple[str, object]] = [
        *head_fields(found),
        ("Coordinator", f"{found.coordinator_id} ({view.coordinator_address})"),
        ("Members", len(found.members)),
        ("Lag", _shown_lag(view)),
    ]
    if view.assignor_error:
        fields.append(("Assignor error", view.assignor_error))
    print_fields(fields)
    if isinstance(view, StreamsGroupView):
        print_streams_group(view)
    elif view.partitions:
        print_partitions(view.partitions)


def print_partitions(rows: Sequence[PartitionRow]) -> None:
    click.echo()
    print_table(
        ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "SECONDS", "MEMBER", "HOST", "INSTANCE"],
        [
            (
                row.topic,
                row.partition,
                row.committed_offset,
                row.end_offset,
                row.lag,
                row.lag_seconds,
                row.member_id,
                row.host,
                row.instance_id,
            )
            for row in rows
        ],
    )


def head_fields(found: GroupDescription) -> list[tuple[str, object]]:
    epoch = None
    if found.group_epoch is not None:
        epoch = f"{found.group_epoch} (assignment {found.assignment_epoch})"
    return [
        ("Group", found.group_id),
        ("Type", found.type),
        ("State", found.state),
        ("Assignor", found.assignor),
        ("Epoch", epoch),
    ]


def _shown_lag(view: GroupView) -> str | None:
    if view.lag is None:
        return None
    seconds = "" if view.lag_seconds is None else f", up to {view.lag_seconds:.1f} seconds"
    return f"{view.lag} records{seconds}"
