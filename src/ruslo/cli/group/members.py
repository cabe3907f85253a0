"""``ruslo group members``: members of a group with their assignments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.completion import complete_groups
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.group.describe import head_fields
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint, print_fields, print_json, print_table
from ruslo.client.views.partition_lists import shown_partitions

if TYPE_CHECKING:
    from ruslo.client.admin.group_descriptions import GroupMember


@click.command(epilog=examples("ruslo group members billing", "ruslo group members billing -o json"))
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@bootstrap_option
@output_option
def members(name: str, bootstrap: str, output: str) -> None:
    """Show the members of a group with their subscriptions and assignments.

    Members of a consumer group (KIP-848) also have an epoch and a target assignment.
    """
    from ruslo.client.views.group_view import describe_one, members_json

    found = with_admin(bootstrap, lambda admin: describe_one(admin, name))
    if output == "json":
        print_json(members_json(found))
        return
    print_fields(head_fields(found))
    if not found.members:
        hint("The group has no members.")
        return
    click.echo()
    if found.type == "classic":
        print_table(
            ["MEMBER", "CLIENT", "HOST", "INSTANCE", "SUBSCRIPTION", "ASSIGNED"],
            [_member_cells(member) for member in found.members],
        )
    else:
        print_table(
            [
                *("MEMBER", "CLIENT", "HOST", "INSTANCE", "SUBSCRIPTION", "ASSIGNED"),
                *("TARGET", "EPOCH", "PROTOCOL", "RACK"),
            ],
            [
                (*_member_cells(m), shown_partitions(m.target or ()) or None, m.epoch, m.protocol, m.rack_id)
                for m in found.members
            ],
        )


def _member_cells(member: GroupMember) -> tuple[object, ...]:
    regex = [f"/{member.subscribed_regex}/"] if member.subscribed_regex else []
    assigned = "(opaque)" if member.assignment is None else shown_partitions(member.assignment) or None
    return (
        member.member_id,
        member.client_id,
        member.host,
        member.instance_id,
        [*member.subscribed_topics, *regex],
        assigned,
    )
