"""Publishes the progress of a query as a consumer group, so tools that show lag show the query's.

Spark reads offsets from its checkpoint only; the committed offsets are informational.
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

_COMMIT_INTERVAL_S = 600.0
"""Unchanged offsets are committed again, because brokers delete them after offsets.retention.minutes."""


class SourceGroup(NamedTuple):
    client: ClientProperties
    group_id: str


@dataclass(slots=True)
class _Published:
    offsets: Mapping[TopicPartition, int]
    at_s: float


class GroupProgress:
    """Commits offsets that changed."""

    def __init__(self) -> None:
        self._published: dict[SourceGroup, _Published] = {}
        self._last_failure: str | None = None

    def publish(self, group: SourceGroup, offsets: Mapping[TopicPartition, int]) -> None:
        last = self._published.get(group)
        now_s = time.monotonic()
        if last is not None and last.offsets == offsets and now_s < last.at_s + _COMMIT_INTERVAL_S:
            return
        asyncio.run(publish(group, offsets))
        self._published[group] = _Published(offsets, now_s)
        self._last_failure = None

    def log_failure(self, owner: str, error: RusloError) -> None:
        """Log a failure once, not with every batch. It does not fail the query."""
        failure = f"cannot publish the progress of {owner} as a consumer group: {error}"
        if failure != self._last_failure:
            log.warning(failure)
        self._last_failure = failure


async def publish(group: SourceGroup, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets of a group without members; raises the coordinator's errors."""
    if not offsets:
        return
    async with group.client.new_cluster() as cluster:
        outcomes = await GroupOffsets(cluster, Coordinators(cluster)).alter(group.group_id, offsets)
    for outcome in outcomes.values():
        if outcome is not None:
            raise outcome
