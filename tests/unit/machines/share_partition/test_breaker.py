"""The circuit breaker of a share-partition: when delivery pauses, and how it goes on."""

from __future__ import annotations

from collections.abc import Sequence

from ruslo.machines.share_partition.breaker import LEAST_RECORDS, PROBES, BreakerSettings, BreakerState
from ruslo.machines.share_partition.partition import SharePartition
from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.machines.share_partition.values import (
    AcknowledgementBatch,
    AcquiredRange,
    AcquireLimits,
    FetchedBatches,
    OffsetRange,
    ShareSettings,
)

BREAKER = BreakerSettings(percent=50, window_ms=10_000, pause_ms=1_000)
ACCEPT, RELEASE, REJECT, GAP = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.GAP,
)
LOG = 1_000


def new(delivery_limit: int = 5, lock_duration_ms: int = 30_000) -> SharePartition:
    settings = ShareSettings(
        delivery_limit=delivery_limit, lock_duration_ms=lock_duration_ms, breaker=BREAKER
    )
    return SharePartition(settings, 0)


def state(partition: SharePartition) -> BreakerState:
    return partition.breaker_state


def fetch(partition: SharePartition, count: int, now_ms: int = 0) -> list[AcquiredRange]:
    offset = partition.next_fetch_offset()
    batches = [OffsetRange(each, each) for each in range(offset, LOG)]
    return partition.acquire("m", AcquireLimits(count), FetchedBatches(offset, batches), now_ms)


def acknowledge(
    partition: SharePartition, acquired: Sequence[AcquiredRange], *types: int, now_ms: int = 0
) -> None:
    """``types``: one for all, or one for each record."""
    (first, last, _) = acquired[0]
    assert len(acquired) == 1
    write = partition.acknowledge("m", [AcknowledgementBatch(first, last, types)], now_ms)
    assert write is not None
    partition.on_written(write.write_id, True, now_ms)


def opened() -> SharePartition:
    partition = new()
    acknowledge(partition, fetch(partition, LEAST_RECORDS), REJECT)
    assert state(partition) is BreakerState.OPEN
    return partition


def test_it_opens_when_more_than_the_percentage_is_undeliverable() -> None:
    partition = new()
    half = LEAST_RECORDS // 2
    acknowledge(partition, fetch(partition, 2 * half), *[ACCEPT] * half, *[REJECT] * half)
    assert state(partition) is BreakerState.CLOSED
    acknowledge(partition, fetch(partition, 1), REJECT)
    assert state(partition) is BreakerState.OPEN
    assert not partition.can_acquire()
    assert fetch(partition, 10) == []
    assert partition.deadline_ms() == 1_000


def test_few_records_do_not_open_it() -> None:
    partition = new()
    acknowledge(partition, fetch(partition, LEAST_RECORDS - 1), REJECT)
    assert partition.can_acquire()


def test_gaps_are_no_failures() -> None:
    partition = new()
    acknowledge(partition, fetch(partition, 100), GAP)
    assert state(partition) is BreakerState.CLOSED


def test_failures_before_the_window_do_not_count() -> None:
    partition = new()
    acknowledge(partition, fetch(partition, LEAST_RECORDS - 1), REJECT)
    acknowledge(partition, fetch(partition, LEAST_RECORDS - 1, 10_001), REJECT, now_ms=10_001)
    assert state(partition) is BreakerState.CLOSED


def test_probes_that_succeed_close_it() -> None:
    partition = opened()
    partition.expire_locks(999)
    assert fetch(partition, 10, 999) == []
    partition.expire_locks(1_000)
    assert state(partition) is BreakerState.HALF_OPEN
    probes = fetch(partition, 10, 1_000)
    assert [each.last - each.first + 1 for each in probes] == [PROBES]
    assert fetch(partition, 10, 1_000) == []
    acknowledge(partition, probes, ACCEPT, now_ms=1_001)
    assert state(partition) is BreakerState.CLOSED
    assert fetch(partition, 10, 1_001)


def test_a_probe_that_fails_opens_it_again() -> None:
    for kind in (REJECT, RELEASE):
        partition = opened()
        partition.expire_locks(1_000)
        acknowledge(partition, fetch(partition, 10, 1_000), kind, now_ms=1_100)
        assert state(partition) is BreakerState.OPEN
        assert partition.deadline_ms() == 2_100


def test_other_probes_follow_those_that_a_member_keeps() -> None:
    partition = opened()
    partition.expire_locks(1_000)
    fetch(partition, 10, 1_000)
    partition.expire_locks(2_000)
    assert fetch(partition, 10, 2_000)


def test_while_it_is_open_the_last_delivery_is_not_counted() -> None:
    partition = new(delivery_limit=2)
    acknowledge(partition, fetch(partition, 1), RELEASE)
    last_delivery = fetch(partition, 1)
    assert last_delivery == [AcquiredRange(0, 0, 2)]
    acknowledge(partition, fetch(partition, LEAST_RECORDS), REJECT)
    assert state(partition) is BreakerState.OPEN
    acknowledge(partition, last_delivery, RELEASE)
    partition.expire_locks(1_000)
    assert fetch(partition, 1, 1_000) == [AcquiredRange(0, 0, 2)]
    acknowledge(partition, [AcquiredRange(0, 0, 2)], REJECT, now_ms=1_000)
    assert partition.start_offset == LEAST_RECORDS + 1


def test_an_expired_lock_keeps_its_last_delivery_while_it_is_open() -> None:
    partition = new(delivery_limit=2, lock_duration_ms=500)
    acknowledge(partition, fetch(partition, 1), RELEASE)
    fetch(partition, 1)
    acknowledge(partition, fetch(partition, LEAST_RECORDS), REJECT)
    partition.expire_locks(500)
    partition.expire_locks(1_000)
    assert fetch(partition, 1, 1_000) == [AcquiredRange(0, 0, 2)]


def test_without_a_percentage_it_closes() -> None:
    partition = opened()
    partition.settings = ShareSettings()
    assert state(partition) is BreakerState.CLOSED
    assert fetch(partition, 1)
