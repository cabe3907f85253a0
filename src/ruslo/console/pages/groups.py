"""Groups: the list, a group with its lag, and a form to delete it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response

from ruslo.client.views.group_view import GroupView, describe_group, rows_of
from ruslo.client.views.partition_lists import shown_by_topic
from ruslo.client.wire.coordinators import value_of
from ruslo.console.confirmation import Preview, is_confirmed
from ruslo.console.console import Console, FormResult, console_of, form_of
from ruslo.console.events import event, stream
from ruslo.console.formats import count, duration, plural
from ruslo.console.forms import Form, paged
from ruslo.console.lag_history import LagSample
from ruslo.console.render import link

_PER_PAGE = 100
_MEMBERS_MAX = 200
_UPDATE_INTERVAL_S = 3.0
_UPDATE_TIMEOUT_S = 10.0


async def groups(request: Request) -> Response:
    console, query = console_of(request), Form.of_query(request.query_params)
    search = query.text("q")
    found = [row for row in rows_of(await console.lags.survey()) if search.lower() in row.group_id.lower()]
    shown = paged(found, query, _PER_PAGE)
    return console.page(
        request,
        "groups.html",
        shown=shown,
        search=search,
        histories={
            row.group_id: _sparkline([sample.records for sample in console.lags.of(row.group_id)])
            for row in shown.rows
        },
    )


async def group(request: Request) -> Response:
    console, group_id = console_of(request), group_of(request)
    view = await describe_group(console.admin, group_id)
    console.lags.add(group_id, view.lag, view.lag_seconds)
    members = view.description.members
    return console.page(
        request,
        "group.html",
        group=group_id,
        view=view,
        members=[
            (member, None if member.assignment is None else shown_by_topic(member.assignment))
            for member in members[:_MEMBERS_MAX]
        ],
        members_left=max(0, len(members) - _MEMBERS_MAX),
    )


async def live(request: Request) -> Response:
    return stream(_updates(console_of(request), group_of(request)))


async def _updates(console: Console, group_id: str) -> AsyncIterator[str]:
    yield event("samples", [_point(sample) for sample in console.lags.of(group_id)])
    while True:
        await asyncio.sleep(_UPDATE_INTERVAL_S)
        console.sampler.note_visit()
        async with asyncio.timeout(_UPDATE_TIMEOUT_S):
            view = await describe_group(console.admin, group_id)
        console.lags.add(group_id, view.lag, view.lag_seconds)
        samples = console.lags.of(group_id)
        if samples:
            yield event("samples", [_point(samples[-1])])
        yield event("figures", _figures(view))


def _point(sample: LagSample) -> list[float | None]:
    return [round(sample.time_s, 1), sample.records, sample.seconds]


def _figures(view: GroupView) -> dict[str, str]:
    return {
        "lag": count(view.lag),
        "lag-seconds": duration(view.lag_seconds),
        "state": view.description.state,
        "members": str(len(view.description.members)),
    }


async def delete(request: Request) -> Response:
    console, form, group_id = console_of(request), form_of(request), group_of(request)
    result = FormResult()
    with result:
        if request.method == "POST" and is_confirmed(form, group_id):
            error = (await console.admin.groups.delete([group_id]))[group_id]
            if error is not None:
                raise error
            await console.lags.invalidate()
            return console.done("/groups", f"Group {group_id} was deleted.")
    described = value_of((await console.admin.groups.describe([group_id]))[group_id])
    committed = await console.admin.group_offsets.fetch(group_id)
    result.preview = Preview(
        title=f"Delete group {group_id}",
        facts=[
            ("State", described.state),
            ("Members", len(described.members)),
            ("Committed offsets", plural(len(committed), "partition")),
        ],
        warning="Its committed offsets are deleted: new consumers of the group start at auto.offset.reset."
        + (" The group has members: stop its consumers first." if described.members else ""),
        button="Delete the group",
        form=form,
        must_type=group_id,
        back=link("/group", id=group_id),
    )
    return console.form_page(
        request,
        "group_confirm.html",
        result,
        group=group_id,
        action=link("/group/delete", id=group_id),
    )


def group_of(request: Request) -> str:
    """The group id, from the query: it may contain slashes."""
    return request.query_params.get("id", "")


def _sparkline(values: list[int], width: int = 96, height: int = 20) -> str | None:
    """The points of the line; None if there are too few."""
    if len(values) < 2:
        return None
    most = max(max(values), 1)
    step = width / (len(values) - 1)
    return " ".join(
        f"{at * step:.1f},{height - 1 - (height - 2) * value / most:.1f}" for at, value in enumerate(values)
    )
