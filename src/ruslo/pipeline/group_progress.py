"""The progress of a query as a consumer group, so that every tool that shows lag shows it.

Spark keeps offsets in its checkpoint and reads from there alone; what is published here is for people to see.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ruslo.client.admin.group_offsets import GroupOffsets
from ruslo.client.wire.coordinators import Coordinators
from ruslo.model.errors import RusloError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.client_properties import ClientProperties

log = logging.getLogger(__name__)

_AGAIN_AFTER_S = 600.0
"""Offsets that do not change are committed again, or brokers forget them after offsets.retention.minutes."""


class SourceGroup(NamedTuple):
    client: ClientProperties
    group_id: str


@dataclass(slots=True)
class _Published:
    offsets: Mapping[TopicPartition, int]
    at_s: float


class GroupProgress:
    """Commits what is new."""

    def __init__(self) -> None:
        self._published: dict[SourceGroup, _Published] = {}
        self._problem: str | None = None

    def publish(self, group: SourceGroup, offsets: Mapping[TopicPartition, int]) -> None:
        last = self._published.get(group)
        now_s = time.monotonic()
        if last is not None and last.offsets == offsets and now_s < last.at_s + _AGAIN_AFTER_S:
            return
        asyncio.run(publish(group, offsets))
        self._published[group] = _Published(offsets, now_s)
        self._problem = None

    def report(self, whose: str, error: RusloError) -> None:
        """No query ends because its progress is not seen; batches are many, so that one line is enough."""
        problem = f"the progress of {whose} is not published: {error}"
        if problem != self._problem:
            log.warning(problem)
        self._problem = problem


async def publish(group: SourceGroup, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit for a group that has no members; raises what the coordinator answers."""
    if not offsets:
        return
    async with group.client.new_cluster() as cluster:
        outcomes = await GroupOffsets(cluster, Coordinators(cluster)).alter(group.group_id, offsets)
    for outcome in outcomes.values():
        if outcome is not None:
            raise outcome
