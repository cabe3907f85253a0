"""Loads committed metadata records into the image and publishes every change to subscribers."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeAlias

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
        """The active controller; -1 if there is none."""
        self._leader_change: asyncio.Future[None] | None = None
        self._subscribers: list[Subscriber] = []
        self._wait_until_applied: list[Callable[[], Awaitable[None]]] = []
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._waiter_ids = itertools.count()

    def subscribe(
        self, subscriber: Subscriber, wait_until_applied: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Call the subscriber after every change, and now with the current image as a change.

        ``wait_until_applied``: for a subscriber that goes on working after the call; returns when it is done.
        """
        self._subscribers.append(subscriber)
        if wait_until_applied is not None:
            self._wait_until_applied.append(wait_until_applied)
        known = MetadataDelta.between(MetadataImage(), self.image)
        if known:
            subscriber(known, self.image)

    def eligible_epoch(self, broker_id: int) -> int | None:
        """The epoch of a broker that may be in sync; None if it is fenced, shutting down or not
        registered."""
        broker = self.image.cluster.brokers.get(broker_id)
        return broker.epoch if broker is not None and broker.active else None

    async def wait_for(self, offset: int) -> None:
        """Return when the image and every subscriber have applied the log up to ``offset``."""
        if self.image.offset < offset:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiters, (offset, next(self._waiter_ids), future))
            await future
        for wait_until_applied in self._wait_until_applied:
            await wait_until_applied()

    def handle_snapshot(self, offset: int, epoch: int, records: Sequence[Message]) -> Iterator[None]:
        image = MetadataImage()
        for record in records:
            image.replay(record)
            yield
        image.offset, image.epoch = offset - 1, epoch
        before, self.image = self.image, image
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
        """Done when the active controller changes."""
        if self._leader_change is None:
            self._leader_change = asyncio.get_running_loop().create_future()
        return self._leader_change

    def snapshot_records(self) -> Iterator[VersionedRecord]:
        """The records of a snapshot of the current state; nothing may be applied while it is read."""
        return self.image.to_records()

    def _publish(self, delta: MetadataDelta) -> None:
        if delta:
            for subscriber in self._subscribers:
                try:
                    subscriber(delta, self.image)
                except Exception:
                    # The image is correct even if a subscriber fails, and the others must be notified.
                    logger.exception(
                        "a subscriber failed to apply the metadata at offset %d", self.image.offset
                    )
        while self._waiters and self._waiters[0][0] <= self.image.offset:
            future = heapq.heappop(self._waiters)[2]
            if not future.done():
                future.set_result(None)
