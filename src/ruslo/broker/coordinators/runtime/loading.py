"""Brings a shard's state back from its partition's log, a slice at a time: the event loop stays free."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from ruslo.broker.partitions.partition import Partition
from ruslo.model.errors import CorruptLogError
from ruslo.records.batch import BatchHeader
from ruslo.records.reader import check_crc, iter_batches

SLICE_S = 0.005
"""After so long the loop gets its turn; well below the 20 ms that no step may exceed."""
RECORDS_PER_LOOK = 64
"""So many records are replayed between two looks at the time."""


class ReplayBatch(Protocol):
    def __call__(self, header: BatchHeader, batch: memoryview) -> Iterator[None]:
        """Take in one batch of the log; yields after each record."""
        ...


async def load(
    partition: Partition, replay: ReplayBatch, buffer_bytes: int, still_wanted: Callable[[], bool]
) -> int:
    """Replay the whole log; returns the number of records. What it raises is the reason to refuse them.

    When it returns, everything in the log is replayed: the caller must not let the loop turn before it has
    activated the shard.
    """
    log = partition.log
    offset, count = log.start_offset, 0
    until = time.monotonic() + SLICE_S
    while offset < log.end_offset and still_wanted():
        part = log.read(offset, buffer_bytes, log.end_offset).slice
        if part is None:
            # Compaction has emptied the rest.
            break
        # A cold disk must not hold up everybody else.
        data = await asyncio.to_thread(part.read)
        first = offset
        for at, header in iter_batches(data):
            batch = memoryview(data)[at : at + header.size]
            if not check_crc(batch):
                raise CorruptLogError(f"the batch at offset {header.base_offset} fails its checksum")
            offset = header.last_offset + 1
            for _ in replay(header, batch):
                count += 1
                if count % RECORDS_PER_LOOK == 0 and time.monotonic() > until:
                    await asyncio.sleep(0)
                    until = time.monotonic() + SLICE_S
        if offset == first:
            raise CorruptLogError(f"there is no whole batch at offset {offset}")
    return count
