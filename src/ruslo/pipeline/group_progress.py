"""Publishes the progress of a query as a consumer group, so tools that show lag show the query's.

Spark reads offsets from its checkpoint only; the committed offsets are informational.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
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


class GroupProgress:
    """Commits offsets that changed."""

    def __init__(self) -> None:
        self._published: dict[SourceGroup, tuple[Mapping[TopicPartition, int], float]] = {}
        """The offsets of the last commit, and when they are committed again."""
        self._last_failure: str | None = None

    def publish(self, group: SourceGroup, offsets: Mapping[TopicPartition, int]) -> None:
        committed, expires_at_s = self._published.get(group, (None, 0.0))
        now_s = time.monotonic()
        if committed == offsets and now_s < expires_at_s:
            return
        asyncio.run(publish(group, offsets))
        self._published[group] = offsets, now_s + _COMMIT_INTERVAL_S
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
