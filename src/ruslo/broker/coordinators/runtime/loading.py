"""Brings a shard's state back from its partition's log, in slices between which requests are served."""

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
    still_wanted: Callable[[], bool],
    scheduler: Scheduler,
) -> int:
    """Replay the whole log; returns the number of records. An error is the reason to refuse the shard.

    When it returns, everything in the log is replayed: the caller must activate the shard in the same
    iteration of the event loop.
    """
    log = partition.log
    offset, count = log.start_offset, 0
    while offset < log.end_offset and still_wanted():
        part = log.read(offset, buffer_bytes, log.end_offset).slice
        if part is None:
            # Compaction has emptied the rest.
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
    """Replay what was read at ``offset``; returns the offset behind it and the number of records."""
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
        raise CorruptLogError(f"there is no whole batch at offset {offset}")
    return offset, count
