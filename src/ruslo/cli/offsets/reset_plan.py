"""Plans an offset reset, executes it, and prints what is new."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import click

from ruslo.cli.terminal.output import hint, print_json, print_table
from ruslo.client.views.partition_lists import shown_partitions

if TYPE_CHECKING:
    from ruslo.cli.offsets.reset_options import Reset
    from ruslo.client.admin.admin import Admin
    from ruslo.client.admin.group_descriptions import GroupDescription
    from ruslo.client.admin.group_offsets import Outcomes
    from ruslo.client.views.reset_plan import Move
    from ruslo.model.errors import KafkaError
    from ruslo.model.topics import TopicPartition

Alter: TypeAlias = "Callable[[Mapping[TopicPartition, int]], Awaitable[Outcomes]]"


class Plan(NamedTuple):
    moves: list[Move]
    group: GroupDescription | None
    """None if the group does not exist. Setting offsets creates it."""
    deleted: list[TopicPartition]
    """Partitions with offsets of the group whose topics were deleted."""
    failed: dict[TopicPartition, KafkaError]

    @property
    def is_blocked(self) -> bool:
        return self.group is not None and self.group.is_active


async def plan_reset(
    admin: Admin,
    name: str,
    group: GroupDescription | None,
    current: Mapping[TopicPartition, int | None],
    reset: Reset,
    alter: Alter,
) -> Plan:
    """The plan; with ``execute`` it is carried out, unless the group is active.

    ``current`` holds the partitions of the group, with their offset if they have one.
    """
    from ruslo.cli.offsets.reset_scope import existing_in
    from ruslo.client.views.reset_plan import ToGiven, make_plan

    deleted: list[TopicPartition] = []
    if isinstance(reset.target, ToGiven):
        partitions = sorted(reset.target.offsets)
    else:
        partitions, deleted = await existing_in(admin, name, current, reset.scopes)
    known = {partition: offset for partition, offset in current.items() if offset is not None}
    plan = Plan(await make_plan(admin, partitions, known, reset.target), group, deleted, {})
    if reset.execute and not plan.is_blocked:
        outcomes = await alter({move.partition: move.new for move in plan.moves})
        plan.failed.update({partition: error for partition, error in outcomes.items() if error is not None})
    return plan


def print_plan(name: str, plan: Plan, reset: Reset, output: str) -> None:
    if plan.deleted:
        click.echo(f"Skipped partitions of deleted topics: {shown_partitions(plan.deleted)}", err=True)
    if reset.export:
        _export(plan, output)
        return
    done = reset.execute and not plan.is_blocked
    if output == "json":
        print_json(
            {
                "group_id": name,
                "state": None if plan.group is None else plan.group.state,
                "executed": done and not plan.failed,
                "partitions": [
                    move.as_json()
                    | {
                        "error": plan.failed[move.partition].code.name
                        if move.partition in plan.failed
                        else None
                    }
                    for move in plan.moves
                ],
            }
        )
        return
    if reset.execute and plan.is_blocked:
        return  # A table of new offsets would look like a success.
    print_table(
        ["TOPIC", "PARTITION", "CURRENT", "NEW", "END", "SKIPPED", "REPLAYED", "NOTE"],
        [
            (*move.partition, move.current, move.new, move.end, move.skipped, move.replayed, move.note)
            for move in plan.moves
        ],
    )


def _export(plan: Plan, output: str) -> None:
    from ruslo.cli.offsets.offsets_file import as_rows, format_csv

    offsets = {move.partition: move.new for move in plan.moves}
    if output == "json":
        print_json(as_rows(offsets))
    else:
        click.echo(format_csv(offsets), nl=False)


def conclude(name: str, plan: Plan, reset: Reset, *, show_members: str, show_offsets: str) -> None:
    """Report the result and the next step; exit with 1 if the reset failed.

    ``show_members`` and ``show_offsets`` are commands.
    """
    from ruslo.cli.terminal.errors import fail_for

    if plan.is_blocked and not reset.export:
        assert plan.group is not None
        count = len(plan.group.members)
        members = f"{count} member{'' if count == 1 else 's'}"
        state = f"Group {name!r} is {plan.group.state} with {members}"
        advice = f"Stop its consumers (see '{show_members}'), then run this command again"
        if reset.execute:
            raise click.ClickException(
                f"{state}: offsets can be reset only while the group has no members. {advice}. "
                "A consumer that crashed leaves the group when its session times out."
            )
        click.echo(f"Note: {state}. {advice} with --execute.", err=True)
    elif plan.failed:
        fail_for(dict(sorted(plan.failed.items())))
    elif reset.execute:
        click.echo(f"Reset {len(plan.moves)} offsets of {name}.", err=True)
        hint(f"Show the offsets: {show_offsets}")
    elif not reset.export:
        click.echo("These are the new offsets. Add --execute to set them.", err=True)
