"""Writes transaction markers into partitions of this broker (WriteTxnMarkers).

A marker is a control batch. The markers of a transaction differ only in fields outside the checksum. A
transaction may have a thousand partitions, so markers are written in slices. The response is sent when every
marker that could be written is committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ruslo.broker.partitions.ack_wait import AckResult, AckWait, Appended
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.scheduling.scheduler import Priority, Scheduler, Steps
from ruslo.machines.machine import MAX_ITEMS_PER_EVENT
from ruslo.machines.txns.marker_requests import EndMarker, MarkerCodes, markers_of, response_of
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.model.topics import GROUP_OFFSETS_TOPIC, TopicPartition
from ruslo.protocol.message import Message
from ruslo.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from ruslo.records.control import end_txn_batch


class LocalPartitions(Protocol):
    """The partitions of this broker."""

    def get(self, topic: str, index: int) -> Partition:
        """Raises KafkaError when this broker does not host the partition."""
        ...

    def storage_failed(self, error: StorageError) -> None: ...


class MarkerSink(Protocol):
    """The group coordinator, which appends and replays the markers of ``__consumer_offsets``."""

    def append_marker(self, index: int, marker: bytearray, transaction_version: int) -> Appended: ...


class _Written:
    """The results of the markers so far."""

    __slots__ = ("codes", "uncommitted")

    def __init__(self) -> None:
        self.codes: dict[tuple[int, TopicPartition], int] = {}
        self.uncommitted: dict[tuple[int, TopicPartition], Appended] = {}


@dataclass(eq=False)
class MarkerWriter:
    _partitions: LocalPartitions
    _groups: MarkerSink
    _clock: Clock
    _scheduler: Scheduler
    _timeout_ms: int

    def handle(self, request: WriteTxnMarkersRequest) -> Message | asyncio.Future[Message]:
        """Write the markers of a coordinator on another node, or of an administrator."""
        codes = self.write(markers_of(request))
        if not isinstance(codes, asyncio.Future):
            return response_of(request, codes)
        promise: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

        def finish(done: asyncio.Future[MarkerCodes]) -> None:
            if not promise.done():
                promise.set_result(response_of(request, done.result()))

        codes.add_done_callback(finish)
        return promise

    def write(self, markers: Sequence[EndMarker]) -> MarkerCodes | asyncio.Future[MarkerCodes]:
        """Write markers. Returns the result itself if they are few and committed at once."""
        written = _Written()
        steps = self._append_all(markers, written)
        # The markers of a small transaction are written within this call, however busy the event loop is.
        is_small = sum(len(marker.partitions) for marker in markers) <= MAX_ITEMS_PER_EVENT
        if is_small:
            for _ in steps:
                pass
            if not written.uncommitted:
                return written.codes
        promise: asyncio.Future[MarkerCodes] = asyncio.get_running_loop().create_future()
        if is_small:
            self._when_committed(written, promise)
        else:
            work = self._scheduler.run(steps, priority=Priority.CLUSTER, name="transaction markers")
            work.add_done_callback(lambda _: self._when_committed(written, promise))
        return promise

    def _append_all(self, markers: Iterable[EndMarker], written: _Written) -> Steps[None]:
        for marker in markers:
            batch = _batch(marker, self._clock.now_ms())
            for tp in marker.partitions:
                self._append(marker, batch, tp, written)
                yield

    def _append(self, marker: EndMarker, batch: bytearray, tp: TopicPartition, written: _Written) -> None:
        key = marker.producer_id, tp
        try:
            partition = self._partitions.get(*tp)
            if tp.topic == GROUP_OFFSETS_TOPIC:
                copy = bytearray(batch)
                appended = self._groups.append_marker(tp.partition, copy, marker.transaction_version)
            else:
                appended = partition.append_marker(batch, self._clock.now_ms(), marker.transaction_version)
        except KafkaError as error:
            written.codes[key] = error.code
        except StorageError as error:
            self._partitions.storage_failed(error)
            written.codes[key] = ErrorCode.KAFKA_STORAGE_ERROR
        else:
            written.codes[key] = ErrorCode.NONE
            if not appended.committed:
                written.uncommitted[key] = appended

    def _when_committed(self, written: _Written, promise: asyncio.Future[MarkerCodes]) -> None:
        def complete(results: list[AckResult]) -> None:
            for key, result in zip(written.uncommitted, results, strict=True):
                written.codes[key] = result.value
            if not promise.done():
                promise.set_result(written.codes)

        AckWait(list(written.uncommitted.values()), self._timeout_ms, complete)


def _batch(marker: EndMarker, now_ms: int) -> bytearray:
    """The batch for every partition: offset and leader epoch are set in place each time."""
    return end_txn_batch(
        commit=marker.commits,
        producer_id=marker.producer_id,
        producer_epoch=marker.epoch,
        coordinator_epoch=marker.coordinator_epoch,
        timestamp=now_ms,
    )
