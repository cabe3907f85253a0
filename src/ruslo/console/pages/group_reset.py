"""Resets a group's offsets: previews a plan, then executes exactly that plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ruslo.client.admin.group_descriptions import SHARE
from ruslo.client.views.group_types import describe_any
from ruslo.client.views.position import AtStart, BeforeEnd, parse_position
from ruslo.client.views.reset_plan import Move, ShiftBy, Target, ToGiven, make_plan
from ruslo.console.confirmation import Preview, is_confirmed
from ruslo.console.console import Console, FormResult, console_of, form_of
from ruslo.console.formats import plural
from ruslo.console.forms import Form, FormError
from ruslo.console.pages.group_pages import group_of
from ruslo.console.render import link
from ruslo.model.topics import TopicPartition

_ROWS_MAX = 500


class _Group(NamedTuple):
    type: str | None
    """None if the group does not exist yet."""
    members: int
    state: str
    offsets: Mapping[TopicPartition, int | None]
    """Committed offsets, or start offsets of a share group: None before the first fetch."""


async def reset(request: Request) -> Response:
    console, form, group_id = console_of(request), form_of(request), group_of(request)
    group = await _describe(console, group_id)
    result = FormResult()
    if request.method == "POST":
        with result:
            if is_confirmed(form):
                return await _execute(console, group_id, form)
            moves = await _plan(console, group, form)
            result.preview = _preview(form, group_id, group, moves)
    return console.form_page(
        request,
        "group_reset.html",
        result,
        group=group_id,
        topics=sorted({tp.topic for tp in group.offsets}),
        is_share=group.type == SHARE,
        members=group.members,
        state=group.state,
        form=form,
        action=link("/group/reset", id=group_id),
    )


async def _describe(console: Console, group_id: str) -> _Group:
    found = await describe_any(console.admin, group_id)
    offsets: dict[TopicPartition, int | None]
    if found is not None and found.type == SHARE:
        shared = await console.admin.share_group_offsets.fetch(group_id)
        offsets = {tp: each.start_offset for tp, each in shared.items()}
    else:
        committed = await console.admin.group_offsets.fetch(group_id)
        offsets = {tp: each.offset for tp, each in committed.items()}
    if found is None:
        return _Group(None, 0, "does not exist yet", offsets)
    return _Group(found.type, len(found.members), found.state, offsets)


async def _plan(console: Console, group: _Group, form: Form) -> list[Move]:
    topic = form.text("topic")
    if topic:
        info = await console.admin.topics.describe(topic)
        number = form.number("partition", "Partition", least=0)
        partitions = [
            TopicPartition(topic, each.partition)
            for each in info.partitions
            if number is None or each.partition == number
        ]
        if not partitions:
            raise FormError(f"Partition: {topic} has no partition {number}.")
    else:
        present = (await console.admin.cluster.metadata({tp.topic for tp in group.offsets})).topics
        partitions = sorted(tp for tp in group.offsets if tp.topic in present)
        if not partitions:
            raise FormError("The group has no offsets. Enter a topic.")
    current = {tp: offset for tp, offset in group.offsets.items() if offset is not None}
    return await make_plan(console.admin, partitions, current, _target(form))


def _target(form: Form) -> Target:
    if form.text("to") == "shift":
        records = form.number("shift", "Records")
        if records is None:
            raise FormError("Records: enter a number, such as 100 or -100.")
        return ShiftBy(records)
    if form.text("to") in ("start", "end"):
        return AtStart() if form.text("to") == "start" else BeforeEnd(0)
    try:
        position = parse_position(form.text("where"))
    except ValueError as error:
        raise FormError(str(error)) from None
    if isinstance(position, BeforeEnd) and position.records:
        raise FormError(f"-{position.records} cannot be used to reset a group. Enter an offset or a time.")
    return position


def _preview(form: Form, group_id: str, group: _Group, moves: Sequence[Move]) -> Preview:
    skipped = sum(move.skipped or 0 for move in moves)
    replayed = sum(move.replayed or 0 for move in moves)
    has_notes = any(move.note for move in moves)
    warning = None
    if group.members:
        warning = (
            f"The group has {plural(group.members, 'member')}, so its coordinator rejects this. Stop its "
            "consumers, then confirm. A crashed consumer leaves when its session times out."
        )
    elif group.type == SHARE:
        warning = (
            "All records from the new offsets on are delivered again, also those that the group has accepted "
            "or rejected."
        )
    return Preview(
        title=f"Reset {plural(len(moves), 'offset')} of {group_id}",
        facts=[("Read again", plural(replayed, "record")), ("Skipped", plural(skipped, "record"))],
        button="Reset the offsets",
        form=form,
        warning=warning,
        headings=("Topic", "Partition", "Current", "New", "End", *(["Note"] if has_notes else ())),
        rows=[
            (*move.partition, move.current, move.new, move.end, *([move.note] if has_notes else ()))
            for move in moves[:_ROWS_MAX]
        ],
        extra=[("move", f"{move.partition.topic}:{move.partition.partition}:{move.new}") for move in moves],
    )


async def _execute(console: Console, group_id: str, form: Form) -> Response:
    given: dict[TopicPartition, int] = {}
    for text in form.all("move"):
        topic, partition, offset = (*text.rsplit(":", 2), "", "")[:3]
        if not topic or not partition.isdecimal() or not offset.isdecimal():
            raise FormError(f"{text!r} is not TOPIC:PARTITION:OFFSET.")
        given[TopicPartition(topic, int(partition))] = int(offset)
    if not given:
        raise FormError("The plan is empty. Load the page again.")
    # Retention may have deleted records since the preview; make_plan limits the offsets again.
    moves = await make_plan(console.admin, list(given), {}, ToGiven(given))
    new = {move.partition: move.new for move in moves}
    group = await describe_any(console.admin, group_id)
    is_share = group is not None and group.type == SHARE
    offsets = console.admin.share_group_offsets if is_share else console.admin.group_offsets
    outcomes = await offsets.alter(group_id, new)
    for error in outcomes.values():
        if error is not None:
            raise error
    await console.lags.invalidate()
    return console.done(
        link("/group", id=group_id),
        f"{plural(len(moves), 'offset')} of {group_id} {'was' if len(moves) == 1 else 'were'} reset.",
    )
