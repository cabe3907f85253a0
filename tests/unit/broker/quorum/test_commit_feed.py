from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise

import pytest

from ruslo.broker.quorum.commit_feed import MAX_RECORDS_PER_DELTA, AppendedBatch, CommitFeed
from ruslo.machines.raft.snapshots import SnapshotId, SnapshotPolicy
from ruslo.model.clock import SystemClock
from ruslo.protocol.message import Message
from ruslo.protocol.messages.begin_transaction_record import BeginTransactionRecord
from ruslo.protocol.messages.end_transaction_record import EndTransactionRecord
from ruslo.protocol.messages.no_op_record import NoOpRecord
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord
from ruslo.protocol.messages.partition_record import PartitionRecord


class Listener:
    def __init__(self) -> None:
        self.offsets: list[int] = []

    def handle_commit(self, base_offset: int, epoch: int, records: Sequence[Message]) -> None:
        self.offsets += range(base_offset, base_offset + len(records))

    def handle_snapshot(self, offset: int, epoch: int, records: Sequence[Message]) -> Iterator[None]:
        yield
        self.offsets = list(range(len(records)))
        yield

    def handle_leader_change(self, leader_id: int, epoch: int) -> None:
        raise AssertionError("unexpected election")


def read_nothing(from_offset: int, to_offset: int) -> Iterator[AppendedBatch | None]:
    raise AssertionError("everything is in memory")


def feed_for(
    *listeners: Listener, read: Callable[[int, int], Iterator[AppendedBatch | None]] = read_nothing
) -> CommitFeed:
    return CommitFeed(SnapshotPolicy(max_bytes=1 << 40, max_interval_ms=0), listeners, read, SystemClock())


def deliver(feed: CommitFeed, high_watermark: int) -> int:
    """Deliver all records; return the number of steps."""
    return sum(1 for _ in feed.deliver(lambda: high_watermark))


@pytest.mark.parametrize("batch", [1, 10, 250, 4000])
def test_a_step_delivers_at_most_one_batch(batch: int) -> None:
    """Batches are not divided."""
    listener = Listener()
    feed = feed_for(listener)
    end = 8000
    for base in range(0, end, batch):
        feed.appended(AppendedBatch(base, base + batch, 1, 100, [NoOpRecord()] * batch))
    seen = [0]
    for _ in feed.deliver(lambda: end):
        seen.append(len(listener.offsets))
    assert listener.offsets == list(range(end))
    assert max(after - before for before, after in pairwise(seen)) == batch


def test_each_listener_gets_a_long_batch_in_its_own_step() -> None:
    first, second = Listener(), Listener()

    def read(from_offset: int, to_offset: int) -> Iterator[AppendedBatch | None]:
        yield None
        yield None
        yield AppendedBatch(from_offset, to_offset, 1, 100, [NoOpRecord()] * (to_offset - from_offset))

    feed = feed_for(first, second, read=read)
    whole = 2 * MAX_RECORDS_PER_DELTA
    seen = [
        (len(first.offsets), len(second.offsets), feed.applied.offset, feed.is_within_batch)
        for _ in feed.deliver(lambda: whole)
    ]
    assert [state for state, _ in groupby(seen)] == [
        (0, 0, 0, False),
        (whole, 0, 0, True),
        (whole, whole, 0, True),
        (whole, whole, whole, False),
    ]
    # Records committed in between are delivered next.
    feed.appended(AppendedBatch(whole, whole + 1, 1, 100, [NoOpRecord()]))
    deliver(feed, whole + 1)
    assert first.offsets == second.offsets == list(range(whole + 1))


class ChunkListener(Listener):
    """Records the base offset and the number of records of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.chunks: list[tuple[int, int]] = []

    def handle_commit(self, base_offset: int, epoch: int, records: Sequence[Message]) -> None:
        super().handle_commit(base_offset, epoch, records)
        self.chunks.append((base_offset, len(records)))


def chunks_of(records: Sequence[Message]) -> list[tuple[int, int]]:
    """The chunks of a batch at offset 7; no listener is ahead by more than one chunk."""
    first, second = ChunkListener(), ChunkListener()
    feed = feed_for(first, second)
    feed.applied = SnapshotId(7, 1)
    end = 7 + len(records)
    feed.appended(AppendedBatch(7, end, 1, 100, records))
    for _ in feed.deliver(lambda: end):
        assert len(first.chunks) - len(second.chunks) in (0, 1)
        # The batch counts as applied only as a whole.
        assert feed.is_within_batch == (feed.applied.offset == 7)
    assert first.chunks == second.chunks
    assert feed.applied.offset == end
    return first.chunks


def test_partition_changes_are_delivered_in_chunks() -> None:
    changes: list[Message] = [PartitionChangeRecord()] * (2 * MAX_RECORDS_PER_DELTA + 1)
    assert chunks_of(changes) == [
        (7, MAX_RECORDS_PER_DELTA),
        (7 + MAX_RECORDS_PER_DELTA, MAX_RECORDS_PER_DELTA),
        (7 + 2 * MAX_RECORDS_PER_DELTA, 1),
    ]


def test_new_partitions_of_a_topic_are_delivered_together() -> None:
    """A producer that saw only some of them would partition keys differently."""
    created: list[Message] = [PartitionRecord()] * (2 * MAX_RECORDS_PER_DELTA)
    changed: list[Message] = [PartitionChangeRecord()] * (2 * MAX_RECORDS_PER_DELTA)
    assert chunks_of(created) == [(7, 2 * MAX_RECORDS_PER_DELTA)]
    assert chunks_of([*created, *changed]) == [
        (7, 3 * MAX_RECORDS_PER_DELTA),
        (7 + 3 * MAX_RECORDS_PER_DELTA, MAX_RECORDS_PER_DELTA),
    ]


def test_a_transaction_is_never_divided() -> None:
    changes: list[Message] = [PartitionChangeRecord()] * (2 * MAX_RECORDS_PER_DELTA)
    transaction = [BeginTransactionRecord(), *changes, EndTransactionRecord()]
    assert chunks_of(transaction) == [(8, 2 * MAX_RECORDS_PER_DELTA)]


def test_a_snapshot_is_applied_in_several_steps() -> None:
    first, second = Listener(), Listener()
    feed = feed_for(first, second)
    feed.appended(AppendedBatch(0, 1, 1, 100, [NoOpRecord()]))
    deliver(feed, 1)
    count = 2 * MAX_RECORDS_PER_DELTA
    feed.load_snapshot(SnapshotId(5000, 3), iter([NoOpRecord()] * count))
    # Records after the snapshot may be committed before it is applied.
    feed.appended(AppendedBatch(5000, 5001, 3, 100, [NoOpRecord()]))
    seen = [
        (len(first.offsets), len(second.offsets), feed.applied.offset, feed.is_within_batch)
        for _ in feed.deliver(lambda: 5001)
    ]
    assert len(seen) > count, "each record is decoded in a step"
    assert [state for state, _ in groupby(seen)] == [
        (1, 1, 1, True),
        (count, 1, 1, True),
        (count, count, 1, True),
        (count, count, 5000, False),
        (count + 1, count + 1, 5001, False),
    ]
    assert feed.applied == SnapshotId(5001, 3)


def test_a_newer_snapshot_replaces_one_that_is_being_applied() -> None:
    listener = Listener()
    feed = feed_for(listener)
    feed.load_snapshot(SnapshotId(5000, 3), iter([NoOpRecord()] * MAX_RECORDS_PER_DELTA))
    steps = feed.deliver(lambda: 9000)
    next(steps)
    feed.load_snapshot(SnapshotId(9000, 4), iter([NoOpRecord()] * 7))
    for _ in steps:
        pass
    assert len(listener.offsets) == 7
    assert feed.applied == SnapshotId(9000, 4)


def test_a_snapshot_is_delivered_without_a_high_watermark() -> None:
    """A node that starts does not know the high watermark yet."""
    listener = Listener()
    feed = feed_for(listener)
    feed.load_snapshot(SnapshotId(50, 3), iter([NoOpRecord()] * 7))
    deliver(feed, 0)
    assert (len(listener.offsets), feed.applied.offset) == (7, 50)


def test_paused_feed_delivers_nothing() -> None:
    listener = Listener()
    feed = feed_for(listener)
    feed.appended(AppendedBatch(0, 1, 1, 100, [NoOpRecord()]))
    feed.hold()
    assert deliver(feed, 1) == 0
    feed.release()
    assert deliver(feed, 1) > 0
    assert listener.offsets == [0]
