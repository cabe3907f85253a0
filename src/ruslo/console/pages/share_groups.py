"""A share group (KIP-932): its partitions with lag and what is in flight, and its members."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response

from ruslo.client.views.share_group_view import ShareGroupView, describe_share_group
from ruslo.console.console import Console
from ruslo.console.events import event
from ruslo.console.formats import count
from ruslo.console.lag_history import LagSample
from ruslo.console.pages.group_pages import UPDATE_INTERVAL_S, UPDATE_TIMEOUT_S, members_left, shown_members


async def page(request: Request, console: Console, group_id: str) -> Response:
    view = await _view(console, group_id)
    members = view.description.members
    return console.page(
        request,
        "share_group.html",
        group=group_id,
        view=view,
        members=shown_members(members),
        members_left=members_left(members),
    )


async def updates(console: Console, group_id: str) -> AsyncIterator[str]:
    yield event("samples", [_point(sample) for sample in console.lags.of(group_id)])
    while True:
        await asyncio.sleep(UPDATE_INTERVAL_S)
        console.sampler.note_visit()
        async with asyncio.timeout(UPDATE_TIMEOUT_S):
            view = await _view(console, group_id)
        samples = console.lags.of(group_id)
        if samples:
            yield event("samples", [_point(samples[-1])])
        yield event(
            "figures",
            {
                "lag": count(view.lag),
                "in-flight": count(view.in_flight),
                "state": view.description.state,
                "members": str(len(view.description.members)),
            },
        )


async def _view(console: Console, group_id: str) -> ShareGroupView:
    view = await describe_share_group(console.admin, group_id, console.metrics)
    console.lags.add(group_id, view.lag, in_flight=view.in_flight)
    return view


def _point(sample: LagSample) -> list[float | None]:
    return [round(sample.time_s, 1), sample.records, sample.in_flight]
