"""How many records went to dead-letter topics since the run began: by the headers of their batches."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.offsets import Spec
from ruslo.client.wire.raw import RawClient
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.decode.batch_table import scan_batches
from ruslo.pipeline.decode.committed import committed_batches

_EVERY_S = 2.0


class DeadLetterCounts:
    """Asks the cluster now and then, in a thread; without such topics it does nothing."""

    def __init__(self, topics: Sequence[tuple[str, str]]) -> None:
        """Pairs of bootstrap servers and a topic."""
        self._topics = sorted(set(topics))
        self._counts: dict[tuple[str, str], int] = {}
        self._positions: dict[tuple[str, str], dict[TopicPartition, int]] = {}
        self._looking = threading.Lock()
        """Two at once would count the same letters."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="dead letters", daemon=True)

    def count(self, bootstrap: str, topic: str) -> int | None:
        """None until the cluster has answered."""
        return self._counts.get((bootstrap, topic))

    def __enter__(self) -> Self:
        if self._topics:
            self.look()
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_EVERY_S):
            self.look()

    def look(self) -> None:
        """Ask now."""
        with self._looking:
            for place in self._topics:
                # A figure of how things go must not be what stops them: without an answer the old one stays.
                with contextlib.suppress(KafkaError, TimeoutError):
                    asyncio.run(self._look(*place))

    async def _look(self, bootstrap: str, name: str) -> None:
        place = (bootstrap, name)
        async with Admin(bootstrap, api_timeout_ms=5_000) as admin:
            ends = await _ends(admin, name)
            if place not in self._counts:
                self._positions[place], self._counts[place] = ends, 0
            # A topic that was made since has all its records from this run.
            positions = {p: self._positions[place].get(p, 0) for p in ends}
            while left := {p: position for p, position in positions.items() if position < ends[p]}:
                moved = await self._count(admin, place, left)
                # Where nothing is to be had any more, retention or a deletion took it.
                positions |= moved or ends
            self._positions[place] = positions

    async def _count(
        self, admin: Admin, place: tuple[str, str], left: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Records, not offsets: markers have an offset too, and aborted records do not count.

        Answers where to go on, for partitions that gave something.
        """
        answers = await RawClient(admin.cluster).fetch(left, max_wait_ms=0, read_committed=True)
        moved: dict[TopicPartition, int] = {}
        for partition, answer in answers.items():
            table = scan_batches(answer.records)
            if table.next_offset is not None:
                self._counts[place] += int(committed_batches(table, answer.aborted).counts.sum())
                moved[partition] = table.next_offset
        return moved


async def _ends(admin: Admin, name: str) -> dict[TopicPartition, int]:
    """Up to where committed records are; empty while the topic does not exist."""
    try:
        topic = await admin.topics.describe(name)
    except KafkaError as error:
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return {}
        raise
    partitions = [TopicPartition(name, info.partition) for info in topic.partitions]
    found = await admin.offsets.find(dict.fromkeys(partitions, Spec.LATEST), read_committed=True)
    return {partition: place.offset for partition, place in found.items()}
