"""Requests about several ids: asked of each one's shard, answered together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from ruslo.protocol.message import Message

ItemT = TypeVar("ItemT")
ResponseT = TypeVar("ResponseT", bound=Message)


class Coordinator(Protocol):
    def partition_of(self, key: str, /) -> int: ...


def by_partition(
    coordinator: Coordinator, items: Iterable[ItemT], id_of: Callable[[ItemT], str]
) -> dict[int, list[ItemT]]:
    parts: dict[int, list[ItemT]] = {}
    for item in items:
        parts.setdefault(coordinator.partition_of(id_of(item)), []).append(item)
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
