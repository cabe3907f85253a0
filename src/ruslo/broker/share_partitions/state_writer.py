"""Writes the delivery states of share-partitions to their share coordinators.

The writes of one share-partition are sent one after the other. Those that arrive while one is in progress are
sent together as the next one. Writes of several share-partitions of a group to the same node share a request,
so a request of a member that acknowledges records of many partitions causes few requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ruslo.broker.coordinators.share.persister import Results, SharePersister
from ruslo.broker.scheduling.background_tasks import BackgroundTasks
from ruslo.broker.share_partitions.led_partition import LedSharePartition, QueuedWrite, Written
from ruslo.broker.share_partitions.persister_errors import persister_error
from ruslo.machines.share_coordinator.responses import merged
from ruslo.machines.share_partition.values import StateWrite
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.write_share_group_state_request import (
    PartitionData,
    StateBatch,
    WriteShareGroupStateRequest,
    WriteStateData,
)

logger = logging.getLogger(__name__)

MAX_STATE_BATCHES = 20_000
"""State batches of a request, unless a single write has more: a coordinator bounds them."""


@dataclass(eq=False)
class StateWriter:
    _persister: SharePersister
    _on_written: Callable[[LedSharePartition, KafkaError | None], None]
    """Called after each write of a share-partition."""
    _run_soon: Callable[[Callable[[], None]], object]
    """``call_soon`` of the event loop."""
    _now_ms: Callable[[], int]
    """The clock of share-partitions."""
    _ready: dict[LedSharePartition, None] = field(default_factory=dict)
    """Share-partitions with queued writes and none in progress."""
    _tasks: BackgroundTasks = field(default_factory=BackgroundTasks)

    def submit(self, led: LedSharePartition, write: StateWrite, written: Written | None = None) -> None:
        """Write it after earlier writes of the share-partition; ``written`` is done then."""
        led.queued_writes.append(QueuedWrite(write, written))
        if not led.writes_in_progress:
            self._make_ready(led)

    async def stop(self) -> None:
        await self._tasks.stop()

    def _make_ready(self, led: LedSharePartition) -> None:
        if not self._ready:
            self._run_soon(self._send_ready)
        self._ready[led] = None

    def _send_ready(self) -> None:
        ready, self._ready = list(self._ready), {}
        requests: dict[tuple[str, int], list[LedSharePartition]] = {}
        sizes: dict[tuple[str, int], int] = {}
        for led in ready:
            size = _begin_writes(led)
            if not size:
                continue
            target = (led.key.group_id, self._persister.node_of(led.key))
            if sizes.get(target, 0) + size > MAX_STATE_BATCHES and target in requests:
                self._tasks.start(self._send(requests.pop(target)))
                sizes[target] = 0
            requests.setdefault(target, []).append(led)
            sizes[target] = sizes.get(target, 0) + size
        for partitions in requests.values():
            self._tasks.start(self._send(partitions))

    async def _send(self, partitions: list[LedSharePartition]) -> None:
        results: Results = {}
        try:
            results = await self._persister.request(merged(_request(led) for led in partitions))
        except Exception:
            logger.exception("writing share state failed")
        for led in partitions:
            result = results.get(led.key)
            if result is None:
                error: KafkaError | None = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The write failed.")
            else:
                error = persister_error(result.error_code, result.error_message)
            try:
                self._complete(led, error)
            except Exception:
                # A fault of one share-partition must not stop the writes of the others.
                logger.exception("completing a write of the share-partition %s failed", led)
                led.fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{led} failed."))

    def _complete(self, led: LedSharePartition, error: KafkaError | None) -> None:
        done, led.writes_in_progress = led.writes_in_progress, []
        machine = led.machine
        assert machine is not None
        for write, _ in done:
            machine.on_written(write.write_id, error is None, self._now_ms())
        self._on_written(led, error)
        for _, written in done:
            if written is not None and not written.done():
                written.set_result(error)
        if led.queued_writes:
            self._make_ready(led)


def _begin_writes(led: LedSharePartition) -> int:
    """Move queued writes to those in progress; returns the number of their state batches."""
    size = 0
    while led.queued_writes:
        count = len(led.queued_writes[0].write.batches)
        if size and size + count > MAX_STATE_BATCHES:
            break
        size += count
        led.writes_in_progress.append(led.queued_writes.popleft())
    return size


def _request(led: LedSharePartition) -> WriteShareGroupStateRequest:
    writes = [write for write, _ in led.writes_in_progress]
    topic_id, index = led.key.topic_id, led.key.partition
    data = PartitionData(
        partition=index,
        state_epoch=led.state_epoch,
        leader_epoch=led.leader_epoch,
        start_offset=writes[-1].start_offset,
        delivery_complete_count=writes[-1].delivery_complete_count,
        state_batches=list(_state_batches(writes)),
    )
    topics = [WriteStateData(topic_id=topic_id, partitions=[data])]
    return WriteShareGroupStateRequest(group_id=led.key.group_id, topics=topics)


def _state_batches(writes: Iterable[StateWrite]) -> Iterable[StateBatch]:
    for write in writes:
        for first, last, state, count in write.batches:
            yield StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
