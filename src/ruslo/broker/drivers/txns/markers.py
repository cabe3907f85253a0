"""Writes transaction markers into partitions of this broker (WriteTxnMarkers).

A marker is a control batch in each partition; these differ only in what lies outside their checksum. A
transaction may have a thousand partitions: they are written in short turns. The answer comes when all that
could be written is safe.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from ruslo.broker.partitions.partition import Appended, Partition
from ruslo.broker.partitions.purgatory import DelayedProduce
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.model.topics import GROUP_OFFSETS_TOPIC
from ruslo.protocol.message import Message
from ruslo.protocol.messages.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest
from ruslo.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
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
    transaction_version: int
    topic: str
    result: WritableTxnMarkerPartitionResult


class _Unsafe(NamedTuple):
    partition: Partition
    end_offset: int
    result: WritableTxnMarkerPartitionResult


class MarkerWriter:
    def __init__(
        self, partitions: LocalPartitions, groups: MarkerTaker, clock: Clock, timeout_ms: int
    ) -> None:
        self._partitions = partitions
        self._groups = groups
        self._clock = clock
        self._timeout_ms = timeout_ms

    def write(self, request: WriteTxnMarkersRequest) -> Message | asyncio.Future[Message]:
        """Answers at once if the markers are few and safe at once."""
        steps: deque[_Step] = deque()
        response = WriteTxnMarkersResponse(markers=[self._plan(marker, steps) for marker in request.markers])
        unsafe: list[_Unsafe] = []
        self._turn(steps, unsafe)
        if not steps and not unsafe:
            return response
        loop = asyncio.get_running_loop()
        promise: asyncio.Future[Message] = loop.create_future()

        def finish() -> None:
            if not promise.done():
                promise.set_result(response)

        def go_on() -> None:
            self._turn(steps, unsafe)
            if steps:
                loop.call_soon(go_on)
            else:
                self._when_safe(unsafe, finish)

        loop.call_soon(go_on)
        return promise

    def _plan(self, marker: WritableTxnMarker, steps: deque[_Step]) -> WritableTxnMarkerResult:
        batch = end_txn_batch(
            commit=marker.transaction_result,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=self._clock.now_ms(),
        )
        result = WritableTxnMarkerResult(producer_id=marker.producer_id)
        for topic in marker.topics:
            results = [
                WritableTxnMarkerPartitionResult(partition_index=index) for index in topic.partition_indexes
            ]
            result.topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=results))
            steps.extend(_Step(batch, marker.transaction_version, topic.name, each) for each in results)
        return result

    def _turn(self, steps: deque[_Step], unsafe: list[_Unsafe]) -> None:
        for _ in range(min(len(steps), MARKERS_PER_TURN)):
            step = steps.popleft()
            result = step.result
            try:
                partition = self._partitions.get(step.topic, result.partition_index)
                appended = self._append(partition, step)
            except KafkaError as error:
                result.error_code = error.code
            except StorageError as error:
                self._partitions.storage_failed(error)
                result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            else:
                if appended.end_offset > partition.log.high_watermark:
                    unsafe.append(_Unsafe(partition, appended.end_offset, result))

    def _append(self, partition: Partition, step: _Step) -> Appended:
        marker = bytearray(step.batch)
        if step.topic == GROUP_OFFSETS_TOPIC:
            return self._groups.append_marker(partition.index, marker, step.transaction_version)
        return partition.append_marker(marker, self._clock.now_ms(), step.transaction_version)

    def _when_safe(self, unsafe: list[_Unsafe], finish: Callable[[], None]) -> None:
        waiting = [each for each in unsafe if each.end_offset > each.partition.log.high_watermark]
        if not waiting:
            finish()
            return

        def complete() -> None:
            for partition, end_offset, result in waiting:
                if partition.log.high_watermark < end_offset:
                    late = ErrorCode.REQUEST_TIMED_OUT
                    result.error_code = late if delayed.late else ErrorCode.NOT_LEADER_OR_FOLLOWER
            finish()

        delayed = DelayedProduce(len(waiting), self._timeout_ms, complete)
        for partition, end_offset, _ in waiting:
            partition.when_safe(end_offset, delayed)
