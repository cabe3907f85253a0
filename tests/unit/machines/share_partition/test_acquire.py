from __future__ import annotations

import sys

import pytest

from ruslo.machines.share_partition.acquisition import halving_count
from ruslo.machines.share_partition.partition import SharePartition
from ruslo.machines.share_partition.states import AcknowledgeType, AcquireMode, RecordState
from ruslo.machines.share_partition.values import (
    AcknowledgementBatch,
    AcquiredRange,
    AcquireLimits,
    FetchedBatches,
    OffsetRange,
    ShareSettings,
    StateBatch,
)

STRICT = AcquireMode.RECORD_LIMIT
SETTINGS = ShareSettings()
LIMITS = AcquireLimits(500)


def fetched(at: int, *batches: tuple[int, int], aborted: tuple[tuple[int, int], ...] = ()) -> FetchedBatches:
    return FetchedBatches(
        at, [OffsetRange(*each) for each in batches], [OffsetRange(*each) for each in aborted]
    )


def acquire(
    partition: SharePartition,
    *batches: tuple[int, int],
    member: str = "m",
    limits: AcquireLimits = LIMITS,
    now_ms: int = 0,
    aborted: tuple[tuple[int, int], ...] = (),
) -> list[tuple[int, ...]]:
    at = partition.next_fetch_offset()
    return [
        tuple(each)
        for each in partition.acquire(member, limits, fetched(at, *batches, aborted=aborted), now_ms)
    ]


def release(partition: SharePartition, member: str = "m") -> None:
    write = partition.release(member, 0)
    assert write is not None
    partition.on_written(write.write_id, True, 0)


def test_new_records_are_acquired_from_the_end_offset() -> None:
    partition = SharePartition(SETTINGS, 10)
    assert partition.next_fetch_offset() == 10
    # The first batch begins before the start offset.
    assert acquire(partition, (5, 14), (15, 19)) == [(10, 19, 1)]
    assert (partition.start_offset, partition.end_offset, partition.next_fetch_offset()) == (10, 20, 20)
    assert acquire(partition, (15, 19)) == []
    assert acquire(partition, (20, 20)) == [(20, 20, 1)]


def test_the_limit_is_rounded_up_to_batches_or_strict() -> None:
    optimized, strict = SharePartition(SETTINGS, 0), SharePartition(SETTINGS, 0)
    batches = [(0, 4), (5, 9), (10, 14)]
    assert acquire(optimized, *batches, limits=AcquireLimits(6)) == [(0, 9, 1)]
    assert acquire(strict, *batches, limits=AcquireLimits(6, mode=STRICT)) == [(0, 5, 1)]
    assert acquire(strict, (5, 9), (10, 14), limits=AcquireLimits(6, mode=STRICT)) == [(6, 11, 1)]


def test_new_records_are_divided_where_batches_of_the_log_end() -> None:
    partition = SharePartition(SETTINGS, 0)
    batches = [(0, 3), (4, 5), (6, 9), (10, 11)]
    assert acquire(partition, *batches, limits=AcquireLimits(500, batch_size=5)) == [(0, 5, 1), (6, 11, 1)]


def test_locks_are_limited() -> None:
    partition = SharePartition(ShareSettings(max_record_locks=10), 0)
    assert acquire(partition, (0, 3), (4, 7), (8, 20)) == [(0, 20, 1)]  # Rounded up to the batch.
    assert not partition.can_acquire()
    assert acquire(partition, (21, 22)) == []
    release(partition)
    # Records that are in flight already can be acquired beyond the limit, but no new ones.
    assert partition.can_acquire()
    assert acquire(partition, (0, 3), (4, 7), (8, 20), (21, 22)) == [(0, 20, 2)]


def test_released_records_come_before_new_ones_and_keep_their_batches() -> None:
    partition = SharePartition(SETTINGS, 0)
    for batch in ((0, 4), (5, 9)):
        assert acquire(partition, batch) == [(*batch, 1)]
    release(partition)
    assert partition.next_fetch_offset() == 0
    found = acquire(partition, (0, 4), (5, 9), (10, 14), limits=AcquireLimits(3))
    assert found == [(0, 4, 2)]
    assert acquire(partition, (5, 9), (10, 14), member="other") == [(5, 9, 2), (10, 14, 1)]


@pytest.mark.parametrize(("limit", "count"), [(2, 2), (3, 2), (4, 2), (5, 3), (6, 3), (10, 5)])
def test_batches_are_halved_from_half_of_the_delivery_limit(limit: int, count: int) -> None:
    assert halving_count(limit) == count


def test_repeated_deliveries_become_smaller_and_the_last_one_is_single() -> None:
    partition = SharePartition(ShareSettings(delivery_limit=5), 0)
    for count in (1, 2, 3):
        assert acquire(partition, (0, 7)) == [(0, 7, count)]
        release(partition)
    # From three deliveries on: one half, and nothing else with it.
    assert acquire(partition, (0, 7), (8, 9)) == [(0, 3, 4)]
    assert acquire(partition, (0, 7), (8, 9), member="other") == [(4, 7, 4)]
    release(partition)
    release(partition, "other")
    for offset in range(8):
        assert acquire(partition, (0, 7), (8, 9)) == [(offset, offset, 5)]
    assert acquire(partition, (8, 9)) == [(8, 9, 1)]
    release(partition)
    # The limit is reached.
    assert partition.start_offset == 8


def test_records_above_a_lowered_limit_are_archived() -> None:
    partition = SharePartition(
        ShareSettings(delivery_limit=5), 0, [StateBatch(0, 3, RecordState.AVAILABLE, 4)]
    )
    partition.settings = ShareSettings(delivery_limit=3)
    assert acquire(partition, (0, 3), (4, 4)) == [(4, 4, 1)]
    assert partition.start_offset == 4


def test_compacted_and_aborted_records_are_archived() -> None:
    partition = SharePartition(SETTINGS, 0)
    assert acquire(partition, (0, 4), (5, 9), (10, 14), aborted=((5, 9), (11, 12))) == [
        (0, 4, 1),
        (10, 10, 1),
        (13, 14, 1),
    ]
    assert partition.delivery_complete_count == 7
    release(partition)
    # Offsets 0 to 2 were compacted since.
    assert acquire(partition, (3, 4), (10, 14)) == [(3, 4, 2), (10, 10, 2), (13, 14, 2)]
    assert partition.start_offset == 3
    # A gap before the next batch does not keep the start offset.
    assert acquire(partition, (20, 21)) == [(20, 21, 1)]
    release(partition)
    assert partition.start_offset == 3
    assert partition.delivery_complete_count == 12


def test_only_aborted_records_move_the_start_offset() -> None:
    partition = SharePartition(SETTINGS, 0)
    assert acquire(partition, (0, 4), aborted=((0, 4),)) == []
    assert (partition.start_offset, partition.end_offset, partition.in_flight) == (5, 5, 0)


def test_loaded_state_has_gaps_that_are_delivered_within_the_limits() -> None:
    state = [
        StateBatch(10, 14, RecordState.ACKNOWLEDGED, 1),
        StateBatch(2_000, 2_004, RecordState.AVAILABLE, 2),
        StateBatch(2_005, 2_009, RecordState.ARCHIVED, 5),
    ]
    partition = SharePartition(SETTINGS, 0, state)
    assert (partition.start_offset, partition.end_offset, partition.next_fetch_offset()) == (0, 2_010, 0)
    assert partition.delivery_complete_count == 10
    batches = [(at, at + 9) for at in range(0, 3_000, 10)]
    # Each gap gets what is left of the limit, rounded up to the end of a batch.
    assert acquire(partition, *batches, limits=AcquireLimits(25)) == [(0, 9, 1), (15, 29, 1)]
    assert partition.next_fetch_offset() == 30
    assert acquire(partition, *batches[3:], limits=AcquireLimits(3_000, 5_000)) == [
        (30, 1_999, 1),
        (2_000, 2_004, 3),
    ]


@pytest.mark.parametrize(
    "batch",
    [
        StateBatch(4, 6, 0, 1),
        StateBatch(9, 8, 0, 1),
        StateBatch(9, 9, RecordState.ACQUIRED, 1),
        StateBatch(9, 9, RecordState.WAITING, 1),
        StateBatch(9, 9, 5, 1),
        StateBatch(9, 9, 0, -1),
    ],
)
def test_impossible_state_is_rejected(batch: StateBatch) -> None:
    with pytest.raises(ValueError, match="persisted"):
        SharePartition(SETTINGS, 5, [StateBatch(5, 6, 0, 1), batch])


def test_loaded_terminal_state_moves_the_start_offset() -> None:
    partition = SharePartition(SETTINGS, 5, [StateBatch(5, 9, 2, 1), StateBatch(10, 10, 0, 1)])
    assert (partition.start_offset, partition.next_fetch_offset()) == (10, 10)


def test_nothing_is_acquired_without_records_or_limit() -> None:
    partition = SharePartition(SETTINGS, 5)
    assert partition.acquire("m", AcquireLimits(0), fetched(5, (5, 9)), 0) == []
    assert partition.acquire("m", AcquireLimits(9), fetched(5), 0) == []
    assert partition.acquire("m", AcquireLimits(9), fetched(0, (0, 4)), 0) == []


def test_a_record_in_flight_takes_little_memory() -> None:
    """Alternating acknowledgements are the worst case: each record is a range by itself."""
    count = 4_000
    partition = SharePartition(ShareSettings(max_record_locks=count), 0)
    acquire(partition, (0, count - 1), limits=AcquireLimits(count))
    types = [AcknowledgeType.RELEASE, AcknowledgeType.ACCEPT] * (count // 2)
    write = partition.acknowledge("m", [AcknowledgementBatch(0, count - 1, types)], 0)
    assert write is not None
    assert len(write.batches) == count
    partition.on_written(write.write_id, True, 0)
    ranges = partition._ranges
    assert len(ranges) == count
    size = sum(sys.getsizeof(getattr(ranges, name)) for name in ranges.__slots__)
    assert size / count < 100
    # Equal neighbours become one range again.
    partition.expire_locks(1 << 40)
    for offset in range(0, count, 2):
        assert partition.acquire("m", AcquireLimits(1, mode=STRICT), fetched(offset, (0, count - 1)), 0) == [
            AcquiredRange(offset, offset, 2)
        ]
    write = partition.acknowledge("m", [AcknowledgementBatch(at, at, [1]) for at in range(2, count, 2)], 0)
    assert write is not None
    partition.on_written(write.write_id, True, 0)
    assert len(ranges) == 2
