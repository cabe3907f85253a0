"""Requests about several groups: asked of each group's shard, answered together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from ruslo.protocol.message import Message

if TYPE_CHECKING:
    from ruslo.broker.drivers.groups.coordinator import GroupCoordinator

ItemT = TypeVar("ItemT")
ResponseT = TypeVar("ResponseT", bound=Message)


def by_partition(
    groups: GroupCoordinator, items: Iterable[ItemT], group_id_of: Callable[[ItemT], str]
) -> dict[int, list[ItemT]]:
    parts: dict[int, list[ItemT]] = {}
    for item in items:
        parts.setdefault(groups.partition_of(group_id_of(item)), []).append(item)
    return parts


async def all_answers(
    pending: Sequence[Message | asyncio.Future[Message]], response: type[ResponseT]
) -> list[ResponseT]:
    answers: list[ResponseT] = []
    for each in pending:
        answer = await each if isinstance(each, asyncio.Future) else each
        assert isinstance(answer, response)
        answers.append(answer)
    return answers
