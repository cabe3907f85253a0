"""Requests about several ids: each shard handles its part, and the responses are joined."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from ruslo.protocol.message import Message

ItemT = TypeVar("ItemT")
ResponseT = TypeVar("ResponseT", bound=Message)


class Partitioner(Protocol):
    def partition_of(self, key: str, /) -> int: ...


def by_partition(
    partitioner: Partitioner, items: Iterable[ItemT], id_of: Callable[[ItemT], str]
) -> dict[int, list[ItemT]]:
    parts: dict[int, list[ItemT]] = {}
    for item in items:
        parts.setdefault(partitioner.partition_of(id_of(item)), []).append(item)
    return parts


async def all_responses(
    pending: Sequence[Message | asyncio.Future[Message]], response_type: type[ResponseT]
) -> list[ResponseT]:
    responses: list[ResponseT] = []
    for each in pending:
        response = await each if isinstance(each, asyncio.Future) else each
        assert isinstance(response, response_type)
        responses.append(response)
    return responses
