from __future__ import annotations

import pytest

from ruslo.machines.share_partition.partition import SharePartition
from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.machines.share_partition.values import (
    AcknowledgementBatch,
    AcquireLimits,
    FetchedBatches,
    OffsetRange,
    ShareSettings,
    StateWrite,
)
from ruslo.model.errors import ErrorCode, KafkaError

GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
LOCK_MS = 30_000


def acquired(
    last: int = 9, member: str = "m", settings: ShareSettings | None = None, now_ms: int = 0
) -> SharePartition:
    """A share-partition whose records up to ``last`` the member has acquired."""
    partition = SharePartition(settings or ShareSettings(), 0)
    fetch(partition, last, member, now_ms)
    return partition


def fetch(partition: SharePartition, last: int = 9, member: str = "m", now_ms: int = 0) -> int:
    at = partition.next_fetch_offset()
    limits = AcquireLimits(500)
    ranges = partition.acquire(member, limits, FetchedBatches(at, [OffsetRange(0, last)]), now_ms)
    return sum(each.last - each.first + 1 for each in ranges)


def acknowledge(
    partition: SharePartition, first: int, last: int, *types: int, member: str = "m", now_ms: int = 0
) -> StateWrite:
    batch = AcknowledgementBatch(first, last, types)
    write = partition.acknowledge(member, [batch], now_ms)
    assert write is not None
    return write


def rejected(partition: SharePartition, *batches: AcknowledgementBatch, member: str = "m") -> ErrorCode:
    before = (partition.delivery_complete_count, partition.next_fetch_offset(), partition.start_offset)
    with pytest.raises(KafkaError) as caught:
        partition.acknowledge(member, batches, 0)
    after = (partition.delivery_complete_count, partition.next_fetch_offset(), partition.start_offset)
    assert before == after
    assert len(partition._ranges) == 1, "a rejected request leaves nothing behind"
    return caught.value.code


def test_each_type_has_its_state() -> None:
    partition = acquired(4)
    write = acknowledge(partition, 0, 3, GAP, ACCEPT, RELEASE, REJECT)
    assert [tuple(each) for each in write.batches] == [(0, 0, 4, 1), (1, 1, 2, 1), (2, 2, 0, 1), (3, 3, 4, 1)]
    # Nothing changes before the write is persisted, except that the records count as complete.
    assert (write.start_offset, write.delivery_complete_count) == (0, 3)
    assert (partition.start_offset, partition.next_fetch_offset()) == (0, 5)
    partition.on_written(write.write_id, True, 0)
    assert (partition.start_offset, partition.next_fetch_offset()) == (2, 2)
    assert partition.delivery_complete_count == 1


def test_one_type_is_for_the_whole_range_and_neighbours_are_joined() -> None:
    partition = acquired(9)
    batches = [AcknowledgementBatch(5, 9, [ACCEPT]), AcknowledgementBatch(0, 4, [ACCEPT])]
    write = partition.acknowledge("m", batches, 0)
    assert write is not None
    assert [tuple(each) for each in write.batches] == [(0, 9, 2, 1)]
    partition.on_written(write.write_id, True, 0)
    assert (partition.start_offset, partition.end_offset, partition.in_flight) == (10, 10, 0)


def test_a_write_that_fails_is_reverted() -> None:
    partition = acquired(9)
    write = acknowledge(partition, 0, 4, ACCEPT)
    partition.on_written(write.write_id, False, 0)
    assert partition.delivery_complete_count == 0
    assert len(partition._ranges) == 1
    # The member still holds the locks, until their deadline.
    again = acknowledge(partition, 0, 4, ACCEPT)
    expired = partition.expire_locks(LOCK_MS)
    assert expired is not None
    assert [tuple(each) for each in expired.batches] == [(5, 9, 0, 1)]
    partition.on_written(again.write_id, False, 0)
    assert partition.deadline_ms() == LOCK_MS
    expired = partition.expire_locks(LOCK_MS)
    assert expired is not None
    assert [tuple(each) for each in expired.batches] == [(0, 4, 0, 1)]


def test_only_the_holder_of_the_lock_acknowledges_and_only_once() -> None:
    partition = acquired(9)
    one = AcknowledgementBatch(2, 4, [ACCEPT])
    assert rejected(partition, one, member="other") is ErrorCode.INVALID_RECORD_STATE
    assert rejected(partition, one, one) is ErrorCode.INVALID_RECORD_STATE
    write = acknowledge(partition, 2, 4, ACCEPT)
    for _ in range(2):
        with pytest.raises(KafkaError, match="Offset 2 cannot be acknowledged: it is not acquired"):
            partition.acknowledge("m", [one], 0)
        if write.write_id in partition._writes:
            partition.on_written(write.write_id, True, 0)


def test_impossible_requests_change_nothing() -> None:
    partition = acquired(9)
    good = AcknowledgementBatch(0, 4, [ACCEPT])
    for bad in (
        AcknowledgementBatch(5, 4, [ACCEPT]),
        AcknowledgementBatch(-1, 4, [ACCEPT]),
        AcknowledgementBatch(5, 10, [ACCEPT]),
        AcknowledgementBatch(5, 9, []),
        AcknowledgementBatch(5, 9, [ACCEPT, ACCEPT]),
        AcknowledgementBatch(5, 5, [5]),
        AcknowledgementBatch(5, 1 << 62, [ACCEPT]),
    ):
        assert rejected(partition, good, bad) is ErrorCode.INVALID_REQUEST


def test_acknowledgements_before_the_start_offset_succeed_without_effect() -> None:
    partition = acquired(9)
    partition.advance_log_start(5)
    assert partition.acknowledge("m", [AcknowledgementBatch(0, 4, [ACCEPT])], 0) is None
    write = acknowledge(partition, 3, 6, ACCEPT, ACCEPT, RELEASE, ACCEPT)
    assert [tuple(each) for each in write.batches] == [(5, 5, 0, 1), (6, 6, 2, 1)]
    # The log deletes records while the write is in progress.
    partition.advance_log_start(6)
    partition.on_written(write.write_id, True, 0)
    assert partition.start_offset == 7
    partition.advance_log_start(100)
    assert (partition.start_offset, partition.end_offset, partition.next_fetch_offset()) == (100, 100, 100)


def test_renewal_extends_the_lock_and_writes_nothing() -> None:
    partition = acquired(9)
    batch = AcknowledgementBatch(0, 4, [RENEW])
    assert partition.acknowledge("m", [batch], 20_000) is None
    expired = partition.expire_locks(LOCK_MS)
    assert expired is not None
    assert [tuple(each) for each in expired.batches] == [(5, 9, 0, 1)]
    assert partition.deadline_ms() == 20_000 + LOCK_MS
    partition.settings = ShareSettings(allows_renewal=False)
    with pytest.raises(KafkaError, match=r"share\.renew\.acknowledge\.enable") as caught:
        partition.acknowledge("m", [batch], 20_000)
    assert caught.value.code is ErrorCode.INVALID_RECORD_STATE


def test_a_rejected_request_renews_nothing() -> None:
    partition = acquired(9)
    renewal = AcknowledgementBatch(0, 4, [RENEW])
    with pytest.raises(KafkaError):
        partition.acknowledge("m", [renewal, AcknowledgementBatch(0, 50, [ACCEPT])], 20_000)
    assert partition.expire_locks(LOCK_MS) is not None
    assert partition.deadline_ms() is None


def test_locks_expire_at_their_deadline_without_waiting_for_the_write() -> None:
    partition = acquired(4)
    fetch(partition, 9, "other", now_ms=10)
    assert partition.deadline_ms() == LOCK_MS
    assert partition.expire_locks(LOCK_MS - 1) is None
    write = partition.expire_locks(LOCK_MS)
    assert write is not None
    assert [tuple(each) for each in write.batches] == [(0, 4, 0, 1)]
    assert partition.deadline_ms() == LOCK_MS + 10
    assert fetch(partition, 4, "other", LOCK_MS) == 5
    partition.on_written(write.write_id, False, 0)
    assert partition.next_fetch_offset() == 10


def test_the_last_delivery_ends_in_the_archive() -> None:
    partition = acquired(0, settings=ShareSettings(delivery_limit=2))
    partition.expire_locks(LOCK_MS)
    assert fetch(partition, 0, "m", LOCK_MS) == 1
    write = acknowledge(partition, 0, 0, RELEASE)
    assert [tuple(each) for each in write.batches] == [(0, 0, 4, 2)]
    partition.on_written(write.write_id, True, 0)
    assert partition.start_offset == 1


def test_a_member_that_leaves_releases_its_records() -> None:
    partition = acquired(4)
    fetch(partition, 9, "other")
    write = acknowledge(partition, 0, 1, ACCEPT)
    released = partition.release("m", 0)
    assert released is not None
    assert [tuple(each) for each in released.batches] == [(2, 4, 0, 1)]
    assert partition.release("m", 0) is None
    partition.on_written(write.write_id, True, 0)
    assert (partition.start_offset, partition.next_fetch_offset()) == (2, 10)
    partition.on_written(released.write_id, True, 0)
    assert partition.next_fetch_offset() == 2
    assert partition.acknowledge("other", [AcknowledgementBatch(5, 9, [ACCEPT])], 0) is not None
