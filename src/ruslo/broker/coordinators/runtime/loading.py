"""Loads a shard's state from its partition's log, in slices between which requests are served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Protocol

from ruslo.broker.partitions.partition import Partition
from ruslo.broker.scheduling.scheduler import Priority, Scheduler, Steps
from ruslo.model.errors import CorruptLogError
from ruslo.records.batch import BatchHeader
from ruslo.records.reader import check_crc, iter_batches


class ReplayBatch(Protocol):
    def __call__(self, header: BatchHeader, batch: memoryview) -> Iterator[None]:
        """Replay one batch of the log; yields after each record."""
        ...


async def load(
    partition: Partition,
    replay: ReplayBatch,
    buffer_bytes: int,
    is_needed: Callable[[], bool],
    scheduler: Scheduler,
) -> int:
    """Replay the whole log and return the number of records. Raises an error if the shard must not be served.

    When it returns, everything in the log is replayed: the caller must activate the shard in the same
    iteration of the event loop.
    """
    log = partition.log
    offset, count = log.start_offset, 0
    while offset < log.end_offset and is_needed():
        part = log.read(offset, buffer_bytes, log.end_offset).slice
        if part is None:
            # Compaction has removed the rest.
            break
        # Reading a cold disk would block the event loop.
        data = await asyncio.to_thread(part.read)
        steps = _replay_batches(data, offset, replay)
        offset, replayed = await scheduler.run(
            steps, priority=Priority.REQUEST, name="the load of a coordinator"
        )
        count += replayed
    return count


def _replay_batches(data: bytes, offset: int, replay: ReplayBatch) -> Steps[tuple[int, int]]:
    """Replay the data at ``offset``; returns the next offset and the number of records."""
    first, count = offset, 0
    for at, header in iter_batches(data):
        batch = memoryview(data)[at : at + header.size]
        if not check_crc(batch):
            raise CorruptLogError(f"the batch at offset {header.base_offset} fails its checksum")
        offset = header.last_offset + 1
        for _ in replay(header, batch):
            count += 1
            yield
    if offset == first:
        raise CorruptLogError(f"no complete batch at offset {offset}")
    return offset, count
