"""Prints a streams group (KIP-1071): its topology, its tasks and its members."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from ruslo.cli.terminal.output import print_table

if TYPE_CHECKING:
    from ruslo.client.admin.streams_group_descriptions import StreamsGroupDescription, StreamsMember
    from ruslo.client.views.streams_group_view import StreamsGroupView


def print_streams_group(view: StreamsGroupView) -> None:
    from ruslo.client.views.topology_graph import topology_graph
    from ruslo.client.views.topology_tree import tree_lines

    found = view.description
    if found.subtopologies:
        click.echo()
        print_table(
            ["SUBTOPOLOGY", "SOURCES", "REPARTITION IN", "REPARTITION OUT", "CHANGELOGS"],
            [
                (
                    each.subtopology_id,
                    each.source_topics,
                    each.repartition_source_topics,
                    each.repartition_sink_topics,
                    each.changelog_topics,
                )
                for each in found.subtopologies
            ],
        )
        click.echo()
        for line in tree_lines(topology_graph(found.subtopologies, found.described)):
            click.echo(line)
    if view.tasks:
        click.echo()
        print_table(
            ["TASK", "LAG", "ACTIVE", "STANDBY", "WARM-UP"],
            [
                (
                    str(row.task),
                    row.lag,
                    None if row.active is None else row.active.member_id,
                    [member.member_id for member in row.standby],
                    [member.member_id for member in row.warmup],
                )
                for row in view.tasks
            ],
        )
    if found.members:
        click.echo()
        print_streams_members(found)


def print_streams_members(group: StreamsGroupDescription) -> None:
    print_table(
        [
            *("MEMBER", "CLIENT", "HOST", "PROCESS", "ENDPOINT", "ACTIVE", "STANDBY", "WARM-UP"),
            *("EPOCH", "PROTOCOL", "RACK"),
        ],
        [list(_cells(member)) for member in group.members],
    )


def _cells(member: StreamsMember) -> Iterable[object]:
    from ruslo.client.views.streams_group_view import shown_tasks

    yield from (member.member_id, member.client_id, member.host, member.process_id, member.endpoint)
    tasks = member.tasks
    yield from (shown_tasks(each) or None for each in (tasks.active, tasks.standby, tasks.warmup))
    yield from (member.epoch, "classic" if member.is_classic else member.protocol, member.rack_id)
