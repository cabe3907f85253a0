"""``ruslo share reset-offsets``: show a plan of new start offsets, and set them with --execute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.completion import complete_share_groups
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.offsets.reset_options import Reset, reset_options
from ruslo.cli.running import with_admin

if TYPE_CHECKING:
    from ruslo.cli.offsets.reset_plan import Plan
    from ruslo.client.admin.admin import Admin


@click.command(
    "reset-offsets",
    epilog=examples(
        "ruslo share reset-offsets invoices --topic orders --to-earliest",
        "ruslo share reset-offsets invoices --topic orders --to-earliest --execute",
        "ruslo share reset-offsets invoices --topic orders:0 --to-offset 1200 --execute",
        "ruslo share reset-offsets invoices --all-topics --to-datetime 2026-03-01T10:00Z",
        "ruslo share reset-offsets invoices --all-topics --to-latest --execute",
    ),
)
@click.argument("name", metavar="GROUP", shell_complete=complete_share_groups)
@bootstrap_option
@reset_options("the group has offsets of", "start offset")
@output_option
def reset_offsets(name: str, bootstrap: str, reset: Reset, output: str) -> None:
    """Reset the start offsets of a share group. Without --execute, only show the new offsets.

    All records from the new offset on are delivered again, with a delivery count of 1: also those that the
    group has accepted or rejected. With --execute the group must have no members: stop its consumers first.
    """
    from ruslo.cli.offsets.reset_plan import conclude, print_plan

    plan = with_admin(bootstrap, lambda admin: _run(admin, name, reset))
    print_plan(name, plan, reset, output)
    show = f"ruslo share describe {name}"
    conclude(name, plan, reset, show_members=show, show_offsets=show)


async def _run(admin: Admin, name: str, reset: Reset) -> Plan:
    from ruslo.cli.offsets.group_types import refuse
    from ruslo.cli.offsets.reset_plan import plan_reset
    from ruslo.client.admin.group_descriptions import SHARE
    from ruslo.client.admin.share_group_offsets import ShareOffsets
    from ruslo.client.views.group_types import describe_any

    group = await describe_any(admin, name)
    if group is not None and group.type != SHARE:
        refuse(group, "reset-offsets")
    found: ShareOffsets = {} if group is None else await admin.share_group_offsets.fetch(name)
    current = {partition: each.start_offset for partition, each in found.items()}
    return await plan_reset(
        admin, name, group, current, reset, lambda offsets: admin.share_group_offsets.alter(name, offsets)
    )
