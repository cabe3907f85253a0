"""How many records each dead-letter topic received since the run began, counted from batch headers."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.offsets import Spec
from ruslo.client.wire.raw import RawClient
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.decode.batch_table import scan_batches
from ruslo.pipeline.decode.committed import committed_batches

_REFRESH_INTERVAL_S = 2.0


class DeadLetterTopic(NamedTuple):
    bootstrap: str
    name: str


class DeadLetterCounts:
    """Counts in a thread of its own. Without topics the thread is not started."""

    def __init__(self, topics: Sequence[DeadLetterTopic]) -> None:
        self._topics = sorted(set(topics))
        self._counts: dict[DeadLetterTopic, int] = {}
        self._positions: dict[DeadLetterTopic, dict[TopicPartition, int]] = {}
        self._refreshing = threading.Lock()
        """Concurrent refreshes would count the same dead letters twice."""
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dead letters", daemon=True)

    def count(self, topic: DeadLetterTopic) -> int | None:
        """None until the cluster has responded."""
        return self._counts.get(topic)

    def __enter__(self) -> Self:
        if self._topics:
            self.refresh()
            self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(_REFRESH_INTERVAL_S):
            self.refresh()

    def refresh(self) -> None:
        with self._refreshing:
            for topic in self._topics:
                # A metric must not stop the pipeline: without a response the last count stays.
                with contextlib.suppress(KafkaError, TimeoutError):
                    asyncio.run(self._refresh(topic))

    async def _refresh(self, topic: DeadLetterTopic) -> None:
        async with Admin(topic.bootstrap, api_timeout_ms=5_000) as admin:
            ends = await _end_offsets(admin, topic.name)
            if topic not in self._counts:
                self._positions[topic], self._counts[topic] = ends, 0
            # Partitions created since then hold records of this run only.
            positions = {p: self._positions[topic].get(p, 0) for p in ends}
            while left := {p: position for p, position in positions.items() if position < ends[p]}:
                moved = await self._count(admin, topic, left)
                # Nothing was fetched: retention or a deletion removed the rest.
                positions |= moved or ends
            self._positions[topic] = positions

    async def _count(
        self, admin: Admin, topic: DeadLetterTopic, left: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Count committed records: control records have offsets too, and aborted records do not count.

        Returns the next offset of each partition that returned batches.
        """
        fetched = await RawClient(admin.cluster).fetch(left, max_wait_ms=0, read_committed=True)
        moved: dict[TopicPartition, int] = {}
        for partition, batches in fetched.items():
            table = scan_batches(batches.records)
            if table.next_offset is not None:
                self._counts[topic] += int(committed_batches(table, batches.aborted).counts.sum())
                moved[partition] = table.next_offset
        return moved


async def _end_offsets(admin: Admin, name: str) -> dict[TopicPartition, int]:
    """Last stable offsets; empty while the topic does not exist."""
    try:
        topic = await admin.topics.describe(name)
    except KafkaError as error:
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return {}
        raise
    partitions = [TopicPartition(name, info.partition) for info in topic.partitions]
    found = await admin.offsets.find(dict.fromkeys(partitions, Spec.LATEST), read_committed=True)
    return {partition: listed.offset for partition, listed in found.items()}
