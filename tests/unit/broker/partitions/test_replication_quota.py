from __future__ import annotations

import pytest

from ruslo.broker.partitions.replication_quota import ReplicationQuota, is_throttled
from ruslo.config.limits import LONG_MAX
from tests.unit.storage.workbench import ManualClock


@pytest.mark.parametrize(
    ("throttled", "expected"),
    [((), False), (("*",), True), (("0:1", "3:2"), True), (("0:2", "3:1"), False), (("13:2",), False)],
)
def test_which_replicas_are_throttled(throttled: tuple[str, ...], expected: bool) -> None:
    assert is_throttled(throttled, 3, 2) is expected


def test_one_second_of_quota_may_be_used_at_once() -> None:
    clock = ManualClock()
    quota = ReplicationQuota(lambda: 1_000, clock)
    quota.record(1_000)
    assert quota.pause_ms() == 0
    quota.record(500)
    assert quota.pause_ms() == 500
    clock.ms += 499
    assert quota.pause_ms() == 1
    clock.ms += 1
    assert quota.pause_ms() == 0


def test_average_rate_is_the_quota() -> None:
    clock = ManualClock()
    quota = ReplicationQuota(lambda: 10_000, clock)
    sent = 0
    end_ms = clock.ms + 60_000
    while clock.ms < end_ms:
        if quota.pause_ms() == 0:
            quota.record(3_000)
            sent += 3_000
        clock.ms += 7
    assert 590_000 <= sent <= 613_000


def test_new_rate_applies_immediately() -> None:
    clock = ManualClock()
    rate = [1_000]
    quota = ReplicationQuota(lambda: rate[0], clock)
    quota.record(2_000)
    assert quota.pause_ms() == 1_000
    rate[0] = 1_000_000
    clock.ms += 1_000
    quota.record(100_000)
    assert quota.pause_ms() <= 100


def test_new_rate_applies_to_a_pending_wait() -> None:
    clock = ManualClock()
    rate = [300]
    quota = ReplicationQuota(lambda: rate[0], clock)
    quota.record(600_300)
    assert quota.pause_ms() == 2_000_000
    clock.ms += 1_000_000
    assert quota.pause_ms() == 1_000_000
    rate[0] = 300_000
    assert quota.pause_ms() == 1_000
    rate[0] = 300
    assert quota.pause_ms() == 1_000_000, "a lower rate applies, too"
    rate[0] = LONG_MAX
    assert quota.pause_ms() == 0


def test_unused_bytes_without_a_limit_are_not_credited() -> None:
    clock = ManualClock()
    rate = [LONG_MAX]
    quota = ReplicationQuota(lambda: rate[0], clock)
    quota.record(1 << 40)
    clock.ms += 10_000
    rate[0] = 1_000
    quota.record(3_000)
    assert quota.pause_ms() == 2_000
