from __future__ import annotations

from ruslo.machines.share_partition.partition import SharePartition
from ruslo.machines.share_partition.states import AcknowledgeType, AcquireMode
from ruslo.machines.share_partition.values import (
    AcknowledgementBatch,
    AcquireLimits,
    FetchedBatches,
    Locks,
    OffsetRange,
    ShareSettings,
)


def test_locks_by_the_records_that_members_hold() -> None:
    partition = SharePartition(ShareSettings(lock_duration_ms=1000), 0)
    assert partition.locks() == Locks(0, None, 0)
    batches = FetchedBatches(0, [OffsetRange(0, 9)])
    strict = AcquireLimits(4, mode=AcquireMode.RECORD_LIMIT)
    partition.acquire("a", strict, batches, now_ms=100)
    partition.acquire("b", strict, FetchedBatches(4, [OffsetRange(4, 9)]), now_ms=300)
    assert partition.locks() == Locks(8, 1100, 1)
    release = AcknowledgementBatch(0, 1, [AcknowledgeType.RELEASE])
    write = partition.acknowledge("a", [release], now_ms=400)
    assert write is not None
    partition.on_written(write.write_id, True, 0)
    assert partition.locks() == Locks(6, 1100, 1)
    partition.acquire("b", strict._replace(max_records=1), batches, now_ms=500)
    assert partition.locks() == Locks(7, 1100, 2)
