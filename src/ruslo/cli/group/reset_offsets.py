"""``ruslo group reset-offsets``: show a plan of new offsets, and commit them with --execute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.completion import complete_groups
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.offsets.reset_options import Reset, reset_options
from ruslo.cli.running import with_admin

if TYPE_CHECKING:
    from ruslo.cli.offsets.reset_plan import Plan
    from ruslo.client.admin.admin import Admin


@click.command(
    "reset-offsets",
    epilog=examples(
        "ruslo group reset-offsets billing --topic orders --to-earliest",
        "ruslo group reset-offsets billing --topic orders --to-earliest --execute",
        "ruslo group reset-offsets billing --topic orders:0-3 --shift-by -100",
        "ruslo group reset-offsets billing --all-topics --to-datetime 2026-03-01T10:00Z",
        "ruslo group reset-offsets billing --all-topics --by-duration 2h --execute",
        "ruslo group reset-offsets billing --all-topics --to-current --export > offsets.csv",
        "ruslo group reset-offsets billing --from-file offsets.csv --execute",
    ),
)
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@bootstrap_option
@reset_options("the group has committed offsets for", "committed offset")
@output_option
def reset_offsets(name: str, bootstrap: str, reset: Reset, output: str) -> None:
    """Reset the committed offsets of a group. Without --execute, only show the new offsets.

    With --execute the group must have no members: stop its consumers first. An offset outside of a partition
    is replaced by the log start or end offset. The state stores of a streams group are not reset.
    """
    from ruslo.cli.offsets.reset_plan import conclude, print_plan

    plan = with_admin(bootstrap, lambda admin: _run(admin, name, reset))
    print_plan(name, plan, reset, output)
    _note_state(plan, reset)
    conclude(
        name,
        plan,
        reset,
        show_members=f"ruslo group members {name}",
        show_offsets=f"ruslo group describe {name}",
    )


async def _run(admin: Admin, name: str, reset: Reset) -> Plan:
    from ruslo.cli.offsets.group_types import refuse
    from ruslo.cli.offsets.reset_plan import plan_reset
    from ruslo.client.admin.group_descriptions import SHARE
    from ruslo.client.views.group_types import describe_any

    group = await describe_any(admin, name)
    if group is not None and group.type == SHARE:
        refuse(group, "reset-offsets")
    committed = await admin.group_offsets.fetch(name)
    current = {partition: each.offset for partition, each in committed.items()}
    return await plan_reset(
        admin, name, group, current, reset, lambda offsets: admin.group_offsets.alter(name, offsets)
    )


def _note_state(plan: Plan, reset: Reset) -> None:
    """A streams group whose offsets go back adds the same records to its state again."""
    from ruslo.client.admin.streams_group_descriptions import StreamsGroupDescription

    if not isinstance(plan.group, StreamsGroupDescription) or reset.export:
        return
    topics = sorted(
        {
            topic
            for each in plan.group.subtopologies
            for topic in (*each.changelog_topics, *each.repartition_source_topics)
        }
    )
    if topics:
        click.echo(
            "Note: the state of the streams group stays. To start with empty state, delete "
            f"{', '.join(topics)} and the state directories of its instances.",
            err=True,
        )
