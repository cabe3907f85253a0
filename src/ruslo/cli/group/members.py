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

    Members of a consumer group (KIP-848) also have an epoch and a target assignment, members of a streams
    group (KIP-1071) have tasks.
    """
    from ruslo.cli.group.streams import print_streams_members
    from ruslo.cli.offsets.group_types import refuse
    from ruslo.client.admin.group_descriptions import SHARE
    from ruslo.client.admin.streams_group_descriptions import StreamsGroupDescription
    from ruslo.client.views.group_types import describe_any
    from ruslo.client.views.group_view import members_json
    from ruslo.client.views.streams_group_view import streams_members_json
    from ruslo.model.errors import ErrorCode, KafkaError

    found = with_admin(bootstrap, lambda admin: describe_any(admin, name))
    if found is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {name!r} does not exist")
    if found.type == SHARE:
        refuse(found, "describe")
    if output == "json":
        if isinstance(found, StreamsGroupDescription):
            print_json(streams_members_json(found))
        else:
            print_json(members_json(found))
        return
    print_fields(head_fields(found))
    if not found.members:
        hint("The group has no members.")
        return
    click.echo()
    if isinstance(found, StreamsGroupDescription):
        print_streams_members(found)
    elif found.type == "classic":
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
