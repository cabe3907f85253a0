"""How many records went to dead-letter topics since the run began: by the ends of those topics."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from ruslo.client.admin import Admin
from ruslo.client.offsets import Spec
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition

_EVERY_S = 2.0


class DeadLetterCounts:
    """Asks the cluster now and then, in a thread; without such topics it does nothing."""

    def __init__(self, topics: Sequence[tuple[str, str]]) -> None:
        """Pairs of bootstrap servers and a topic."""
        self._topics = sorted(set(topics))
        self._first: dict[tuple[str, str], int] = {}
        self._last: dict[tuple[str, str], int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="dead letters", daemon=True)

    def count(self, bootstrap: str, topic: str) -> int | None:
        """None until the cluster has answered."""
        place = (bootstrap, topic)
        return None if place not in self._last else self._last[place] - self._first[place]

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
        for place in self._topics:
            # A figure of how things go must not be what stops them: without an answer the old one stays.
            with contextlib.suppress(KafkaError, TimeoutError):
                end = asyncio.run(_end(*place))
                self._first.setdefault(place, end)
                self._last[place] = end


async def _end(bootstrap: str, name: str) -> int:
    """How many records a topic ever had; 0 while it does not exist."""
    async with Admin(bootstrap, api_timeout_ms=5_000) as admin:
        try:
            topic = await admin.topics.describe(name)
        except KafkaError as error:
            if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return 0
            raise
        partitions = [TopicPartition(name, info.partition) for info in topic.partitions]
        found = await admin.offsets.find(dict.fromkeys(partitions, Spec.LATEST))
        return sum(place.offset for place in found.values())
