"""When a snapshot is due, and which snapshots retention deletes."""

from __future__ import annotations

from ruslo.machines.raft.snapshots import SnapshotId, SnapshotPolicy, StoredSnapshot, next_truncation


def test_due_after_max_bytes() -> None:
    policy = SnapshotPolicy(max_bytes=100, max_interval_ms=0)
    policy.committed(60, now_ms=0)
    assert not policy.is_due(now_ms=10**9)
    assert policy.deadline_ms() is None
    policy.committed(40, now_ms=0)
    assert policy.is_due(now_ms=0)
    policy.taken()
    assert not policy.is_due(now_ms=0)


def test_due_an_interval_after_the_first_record_it_would_add() -> None:
    policy = SnapshotPolicy(max_bytes=100, max_interval_ms=1_000)
    assert policy.deadline_ms() is None
    assert not policy.is_due(now_ms=10**9)
    policy.committed(1, now_ms=500)
    policy.committed(1, now_ms=900)
    assert policy.deadline_ms() == 1_500
    assert not policy.is_due(now_ms=1_499)
    assert policy.is_due(now_ms=1_500)
    policy.taken()
    assert policy.deadline_ms() is None


OLD = StoredSnapshot(SnapshotId(10, 1), size=100, last_timestamp_ms=1_000)
NEW = StoredSnapshot(SnapshotId(20, 1), size=100, last_timestamp_ms=2_000)


def truncation(
    *snapshots: StoredSnapshot, log_size: int = 50, now_ms: int = 2_000, size: int, age: int
) -> SnapshotId | None:
    return next_truncation(snapshots, log_size, now_ms, max_retention_bytes=size, max_retention_ms=age)


def test_newest_snapshot_is_never_deleted() -> None:
    assert truncation(size=0, age=0) is None
    assert truncation(NEW, now_ms=10**9, size=0, age=0) is None


def test_truncate_when_the_total_size_exceeds_the_limit() -> None:
    assert truncation(OLD, NEW, size=250, age=-1) is None
    assert truncation(OLD, NEW, size=249, age=-1) == NEW.id
    assert truncation(OLD, NEW, size=-1, age=-1) is None


def test_truncate_when_the_oldest_snapshot_exceeds_the_age_limit() -> None:
    assert truncation(OLD, NEW, size=-1, age=1_000) is None
    assert truncation(OLD, NEW, size=-1, age=999) == NEW.id
    assert truncation(OLD, NEW, now_ms=10**9, size=-1, age=-1) is None


def test_snapshots_sort_by_age() -> None:
    assert sorted([SnapshotId(20, 1), SnapshotId(3, 2), SnapshotId(20, 3)]) == [
        SnapshotId(3, 2),
        SnapshotId(20, 1),
        SnapshotId(20, 3),
    ]
