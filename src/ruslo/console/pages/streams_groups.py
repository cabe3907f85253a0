"""A streams group (KIP-1071): its tasks with their lag, its members and its topology."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from ruslo.client.admin.streams_group_descriptions import StreamsGroupDescription
from ruslo.client.views.streams_group_view import shown_tasks, streams_view_of
from ruslo.client.views.topology_graph import topology_graph
from ruslo.client.views.topology_tree import tree_lines
from ruslo.console.console import Console
from ruslo.console.pages.group_pages import MEMBERS_MAX, members_left
from ruslo.console.topology_svg import topology_svg


async def page(request: Request, console: Console, found: StreamsGroupDescription) -> Response:
    view = await streams_view_of(console.admin, found)
    graph = topology_graph(found.subtopologies, found.described)
    console.lags.add(found.group_id, view.lag, view.lag_seconds)
    return console.page(
        request,
        "streams_group.html",
        group=found.group_id,
        view=view,
        graph=graph,
        drawn=topology_svg(graph, found.group_id),
        tree=tree_lines(graph),
        unassigned=sum(row.active is None for row in view.tasks),
        members=[
            (
                member,
                [
                    (name, shown_tasks(tasks))
                    for name, tasks in (
                        ("active", member.tasks.active),
                        ("standby", member.tasks.standby),
                        ("warm-up", member.tasks.warmup),
                    )
                    if tasks
                ],
            )
            for member in found.members[:MEMBERS_MAX]
        ],
        members_left=members_left(found.members),
    )
