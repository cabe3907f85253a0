"""Groups: the list, a classic or consumer group with its lag, and a form to delete a group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response

from ruslo.client.admin.group_descriptions import CLASSIC, CONSUMER, SHARE, STREAMS
from ruslo.client.admin.streams_group_descriptions import StreamsGroupDescription
from ruslo.client.views.group_view import GroupView, rows_of, view_of
from ruslo.console.confirmation import Preview, is_confirmed
from ruslo.console.console import Console, FormResult, console_of, form_of
from ruslo.console.events import event, stream
from ruslo.console.formats import count, duration, plural
from ruslo.console.forms import Form, paged
from ruslo.console.lag_history import LagSample
from ruslo.console.pages import share_groups, streams_groups
from ruslo.console.pages.group_pages import (
    UPDATE_INTERVAL_S,
    UPDATE_TIMEOUT_S,
    found_group,
    group_of,
    members_left,
    shown_members,
)
from ruslo.console.render import link

_PER_PAGE = 100
TYPES = (CLASSIC, CONSUMER, SHARE, STREAMS)


async def groups(request: Request) -> Response:
    console, query = console_of(request), Form.of_query(request.query_params)
    search, kind = query.text("q"), query.choice("type", TYPES, "")
    rows = rows_of(await console.lags.survey())
    found = [row for row in rows if search.lower() in row.group_id.lower() and kind in ("", row.type)]
    shown = paged(found, query, _PER_PAGE)
    return console.page(
        request,
        "groups.html",
        shown=shown,
        search=search,
        kind=kind,
        kinds=[each for each in TYPES if each == kind or any(row.type == each for row in rows)],
        histories={
            row.group_id: _sparkline([sample.records for sample in console.lags.of(row.group_id)])
            for row in shown.rows
        },
    )


async def group(request: Request) -> Response:
    console, group_id = console_of(request), group_of(request)
    found = await found_group(console, group_id)
    if found.type == SHARE:
        return await share_groups.page(request, console, group_id)
    if isinstance(found, StreamsGroupDescription):
        return await streams_groups.page(request, console, found)
    view = await view_of(console.admin, found)
    console.lags.add(group_id, view.lag, view.lag_seconds)
    return console.page(
        request,
        "group.html",
        group=group_id,
        view=view,
        members=shown_members(found.members),
        members_left=members_left(found.members),
    )


async def live(request: Request) -> Response:
    console, group_id = console_of(request), group_of(request)
    found = await found_group(console, group_id)
    if found.type == SHARE:
        return stream(share_groups.updates(console, group_id))
    return stream(_updates(console, group_id))


async def _updates(console: Console, group_id: str) -> AsyncIterator[str]:
    yield event("samples", [_point(sample) for sample in console.lags.of(group_id)])
    while True:
        await asyncio.sleep(UPDATE_INTERVAL_S)
        console.sampler.note_visit()
        async with asyncio.timeout(UPDATE_TIMEOUT_S):
            view = await view_of(console.admin, await found_group(console, group_id))
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
    described = await found_group(console, group_id)
    if described.type == SHARE:
        offsets = len(await console.admin.share_group_offsets.fetch(group_id))
        warning = (
            "Its offsets and the state of its records are deleted: new consumers of the group start at "
            "share.auto.offset.reset."
        )
    else:
        offsets = len(await console.admin.group_offsets.fetch(group_id))
        warning = "Its committed offsets are deleted: new consumers of the group start at auto.offset.reset."
    result.preview = Preview(
        title=f"Delete group {group_id}",
        facts=[
            ("Type", described.type),
            ("State", described.state),
            ("Members", len(described.members)),
            ("Offsets", plural(offsets, "partition")),
        ],
        warning=warning + (" The group has members: stop its consumers first." if described.members else ""),
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


def _sparkline(values: list[int], width: int = 96, height: int = 20) -> str | None:
    """The points of the line; None if there are too few."""
    if len(values) < 2:
        return None
    most = max(max(values), 1)
    step = width / (len(values) - 1)
    return " ".join(
        f"{at * step:.1f},{height - 1 - (height - 2) * value / most:.1f}" for at, value in enumerate(values)
    )
