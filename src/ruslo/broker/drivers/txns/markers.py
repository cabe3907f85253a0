"""Writes transaction markers into partitions of this broker (WriteTxnMarkers).

A marker is a control batch in each partition; these differ only in what lies outside their checksum. A
transaction may have a thousand partitions: they are written in short turns. The answer comes when all that
could be written is safe.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from ruslo.broker.partitions.partition import Appended, Partition
from ruslo.broker.partitions.purgatory import DelayedProduce
from ruslo.machines.txns.marker_requests import EndMarker, MarkerCodes, markers_of, response_of
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.model.topics import GROUP_OFFSETS_TOPIC, TopicPartition
from ruslo.protocol.message import Message
from ruslo.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from ruslo.records.control import end_txn_batch

MARKERS_PER_TURN = 64


class LocalPartitions(Protocol):
    """The partitions of this broker."""

    def get(self, topic: str, index: int) -> Partition:
        """Raises KafkaError when it is not here."""
        ...

    def storage_failed(self, error: StorageError) -> None: ...


class MarkerTaker(Protocol):
    """The group coordinator: offsets that wait for a marker in its log must hear of it."""

    def append_marker(self, index: int, marker: bytearray, transaction_version: int) -> Appended: ...


class _Step(NamedTuple):
    """A marker for one partition."""

    batch: bytearray
    marker: EndMarker
    place: TopicPartition


class _Unsafe(NamedTuple):
    partition: Partition
    end_offset: int
    leader_epoch: int
    """Of the append: under another leader the offset may hold another record."""
    key: tuple[int, TopicPartition]


class _Written:
    """What became of the markers so far."""

    __slots__ = ("codes", "unsafe")

    def __init__(self) -> None:
        self.codes: dict[tuple[int, TopicPartition], int] = {}
        self.unsafe: list[_Unsafe] = []


class MarkerWriter:
    def __init__(
        self, partitions: LocalPartitions, groups: MarkerTaker, clock: Clock, timeout_ms: int
    ) -> None:
        self._partitions = partitions
        self._groups = groups
        self._clock = clock
        self._timeout_ms = timeout_ms

    def answer(self, request: WriteTxnMarkersRequest) -> Message | asyncio.Future[Message]:
        """As ``write``, for a coordinator on another node or for an administrator."""
        codes = self.write(markers_of(request))
        if not isinstance(codes, asyncio.Future):
            return response_of(request, codes)
        promise: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

        def finish(done: asyncio.Future[MarkerCodes]) -> None:
            if not promise.done():
                promise.set_result(response_of(request, done.result()))

        codes.add_done_callback(finish)
        return promise

    def write(self, markers: Iterable[EndMarker]) -> MarkerCodes | asyncio.Future[MarkerCodes]:
        """Answers at once if the markers are few and safe at once."""
        now_ms = self._clock.now_ms()
        steps = deque(
            _Step(batch, marker, place)
            for marker in markers
            for batch in (_batch(marker, now_ms),)
            for place in marker.partitions
        )
        written = _Written()
        self._turn(steps, written, now_ms)
        if not steps and not written.unsafe:
            return written.codes
        loop = asyncio.get_running_loop()
        promise: asyncio.Future[MarkerCodes] = loop.create_future()

        def finish() -> None:
            if not promise.done():
                promise.set_result(written.codes)

        def go_on() -> None:
            self._turn(steps, written, self._clock.now_ms())
            wait()

        def wait() -> None:
            if steps:
                loop.call_soon(go_on)
            else:
                self._when_safe(written, finish)

        wait()
        return promise

    def _turn(self, steps: deque[_Step], written: _Written, now_ms: int) -> None:
        for _ in range(min(len(steps), MARKERS_PER_TURN)):
            batch, marker, place = steps.popleft()
            key = marker.producer_id, place
            try:
                partition = self._partitions.get(*place)
                if place.topic == GROUP_OFFSETS_TOPIC:
                    copy = bytearray(batch)
                    appended = self._groups.append_marker(place.partition, copy, marker.transaction_version)
                else:
                    appended = partition.append_marker(batch, now_ms, marker.transaction_version)
            except KafkaError as error:
                written.codes[key] = error.code
            except StorageError as error:
                self._partitions.storage_failed(error)
                written.codes[key] = ErrorCode.KAFKA_STORAGE_ERROR
            else:
                written.codes[key] = ErrorCode.NONE
                if appended.end_offset > partition.log.high_watermark:
                    written.unsafe.append(
                        _Unsafe(partition, appended.end_offset, partition.leader_epoch, key)
                    )

    def _when_safe(self, written: _Written, finish: Callable[[], None]) -> None:
        waiting = [each for each in written.unsafe if each.end_offset > each.partition.log.high_watermark]
        if not waiting:
            finish()
            return

        def complete() -> None:
            for partition, end_offset, leader_epoch, key in waiting:
                if not partition.is_leader or partition.leader_epoch != leader_epoch:
                    written.codes[key] = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif partition.log.high_watermark < end_offset:
                    late = ErrorCode.REQUEST_TIMED_OUT
                    written.codes[key] = late if delayed.late else ErrorCode.NOT_LEADER_OR_FOLLOWER
            finish()

        delayed = DelayedProduce(len(waiting), self._timeout_ms, complete)
        for partition, end_offset, _, _ in waiting:
            partition.when_safe(end_offset, delayed)


def _batch(marker: EndMarker, now_ms: int) -> bytearray:
    """Written into every partition in turn: offset and leader epoch are set in place each time."""
    return end_txn_batch(
        commit=marker.commits,
        producer_id=marker.producer_id,
        producer_epoch=marker.epoch,
        coordinator_epoch=marker.coordinator_epoch,
        timestamp=now_ms,
    )
