"""The cluster's metadata as this broker knows it: committed records only, handed on to its users."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeAlias

from ruslo.broker.metadata.topic_responses import TopicResponses
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.controller.records import VersionedRecord
from ruslo.protocol.message import Message

logger = logging.getLogger(__name__)

Subscriber: TypeAlias = Callable[[MetadataDelta, MetadataImage], None]


class MetadataLoader:
    def __init__(self) -> None:
        self.image = MetadataImage()
        self.leader_id = -1
        """The active controller, -1 while there is none."""
        self.topic_responses = TopicResponses()
        self._leader_change: asyncio.Future[None] | None = None
        self._subscribers: list[Subscriber] = []
        self._settled: list[Callable[[], Awaitable[None]]] = []
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._waiter_ids = itertools.count()

    def subscribe(self, subscriber: Subscriber, settled: Callable[[], Awaitable[None]] | None = None) -> None:
        """Call it after every change. What is already known comes at once, as if it were new.

        ``settled``: of a subscriber that goes on working after the call; returns when it is done.
        """
        self._subscribers.append(subscriber)
        if settled is not None:
            self._settled.append(settled)
        known = MetadataDelta.between(MetadataImage(), self.image)
        if known:
            subscriber(known, self.image)

    def eligible_epoch(self, broker_id: int) -> int | None:
        """The epoch of a broker that may be in sync; None while it is fenced, stopping or not registered."""
        broker = self.image.cluster.brokers.get(broker_id)
        return broker.epoch if broker is not None and broker.active else None

    async def wait_for(self, offset: int) -> None:
        """Return when the image, and with it every subscriber, has what the log holds up to ``offset``."""
        if self.image.offset < offset:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiters, (offset, next(self._waiter_ids), future))
            await future
        for settled in self._settled:
            await settled()

    def handle_snapshot(self, offset: int, epoch: int, records: Sequence[Message]) -> Iterator[None]:
        image = MetadataImage()
        for record in records:
            image.replay(record)
            yield
        image.offset, image.epoch = offset - 1, epoch
        before, self.image = self.image, image
        self.topic_responses.clear()
        self._publish(MetadataDelta.between(before, image))

    def handle_commit(self, base_offset: int, epoch: int, records: Sequence[Message]) -> None:
        image, delta = self.image, MetadataDelta()
        for record in records:
            image.replay(record, delta)
        image.offset, image.epoch = base_offset + len(records) - 1, epoch
        self._publish(delta)

    def handle_leader_change(self, leader_id: int, epoch: int) -> None:
        self.leader_id = leader_id
        change, self._leader_change = self._leader_change, None
        if change is not None and not change.done():
            change.set_result(None)

    def next_leader_change(self) -> asyncio.Future[None]:
        """Done when another controller, or none, is the active one."""
        if self._leader_change is None:
            self._leader_change = asyncio.get_running_loop().create_future()
        return self._leader_change

    def snapshot_records(self) -> Iterator[VersionedRecord]:
        """The present state as a snapshot holds it; nothing may be applied while it is read."""
        return self.image.to_records()

    def _publish(self, delta: MetadataDelta) -> None:
        for topic_id in delta.deleted_topics:
            self.topic_responses.forget(topic_id)
        if delta:
            for subscriber in self._subscribers:
                try:
                    subscriber(delta, self.image)
                except Exception:
                    # The image is right whatever one of its readers makes of it, and the others must be told.
                    logger.exception("metadata at offset %d could not be put into effect", self.image.offset)
        while self._waiters and self._waiters[0][0] <= self.image.offset:
            future = heapq.heappop(self._waiters)[2]
            if not future.done():
                future.set_result(None)
