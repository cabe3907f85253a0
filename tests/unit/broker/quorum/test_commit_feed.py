from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest

from ruslo.broker.quorum.commit_feed import LONG_BATCH, AppendedBatch, CommitFeed
from ruslo.machines.raft.snapshots import SnapshotId, SnapshotPolicy
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
        raise AssertionError("nobody is elected")


@pytest.mark.parametrize(("batch", "most"), [(1, 501), (10, 510), (250, 750), (4000, 4000)])
def test_so_many_records_are_handed_out_in_a_turn(batch: int, most: int) -> None:
    """Batches stay whole, so the last one of a turn may go beyond."""
    feed, listener = CommitFeed(SnapshotPolicy(max_bytes=1 << 40, max_interval_ms=0)), Listener()
    feed.listeners.append(listener)
    end = 8000
    for base in range(0, end, batch):
        feed.appended(AppendedBatch(base, base + batch, 1, 100, [NoOpRecord()] * batch))
    seen = [0]
    while not feed.deliver(end, 0, 500):
        seen.append(len(listener.offsets))
    seen.append(len(listener.offsets))
    assert listener.offsets == list(range(end))
    assert max(after - before for before, after in pairwise(seen)) <= most


def test_each_listener_is_given_a_long_batch_in_its_own_turn() -> None:
    feed = CommitFeed(SnapshotPolicy(max_bytes=1 << 40, max_interval_ms=0))
    first, second = Listener(), Listener()
    feed.listeners += [first, second]

    def read(from_offset: int, to_offset: int) -> Iterator[AppendedBatch | None]:
        yield None
        yield None
        yield AppendedBatch(from_offset, to_offset, 1, 100, [NoOpRecord()] * (to_offset - from_offset))

    feed.read = read
    seen = []
    delivered = False
    while not delivered:
        delivered = feed.deliver(2 * LONG_BATCH, 0, LONG_BATCH)
        seen.append((len(first.offsets), len(second.offsets), feed.applied.offset, feed.amid_batch))
    whole = 2 * LONG_BATCH
    assert seen == [
        (0, 0, 0, False),
        (0, 0, 0, False),
        (whole, 0, 0, True),
        (whole, whole, 0, True),
        (whole, whole, whole, False),
    ]
    # What was committed while that went on is not forgotten.
    feed.appended(AppendedBatch(whole, whole + 1, 1, 100, [NoOpRecord()]))
    assert feed.deliver(whole + 1, 0, LONG_BATCH)
    assert first.offsets == second.offsets == list(range(whole + 1))


class PieceListener(Listener):
    """Keeps where each call began, and how many records it brought."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[tuple[int, int]] = []

    def handle_commit(self, base_offset: int, epoch: int, records: Sequence[Message]) -> None:
        super().handle_commit(base_offset, epoch, records)
        self.pieces.append((base_offset, len(records)))


def pieces_of(records: Sequence[Message]) -> list[tuple[int, int]]:
    """How a batch at offset 7 is handed out; nobody is ahead of the other by more than a piece."""
    feed = CommitFeed(SnapshotPolicy(max_bytes=1 << 40, max_interval_ms=0))
    first, second = PieceListener(), PieceListener()
    feed.listeners += [first, second]
    feed.applied = SnapshotId(7, 1)
    end = 7 + len(records)
    feed.appended(AppendedBatch(7, end, 1, 100, records))
    while not feed.deliver(end, 0, LONG_BATCH):
        assert len(first.pieces) - len(second.pieces) in (0, 1)
        assert feed.amid_batch
        assert feed.applied.offset == 7, "to others the batch is whole"
    assert first.pieces == second.pieces
    assert feed.applied.offset == end
    return first.pieces


def test_changes_of_many_partitions_are_handed_out_in_pieces() -> None:
    changes: list[Message] = [PartitionChangeRecord()] * (2 * LONG_BATCH + 1)
    assert pieces_of(changes) == [(7, LONG_BATCH), (7 + LONG_BATCH, LONG_BATCH), (7 + 2 * LONG_BATCH, 1)]


def test_new_partitions_of_a_topic_come_all_at_once() -> None:
    """A client that saw some of them would send keys elsewhere than one that saw all."""
    made: list[Message] = [PartitionRecord()] * (2 * LONG_BATCH)
    changed: list[Message] = [PartitionChangeRecord()] * (2 * LONG_BATCH)
    assert pieces_of(made) == [(7, 2 * LONG_BATCH)]
    assert pieces_of([*made, *changed]) == [(7, 3 * LONG_BATCH), (7 + 3 * LONG_BATCH, LONG_BATCH)]


def test_a_transaction_is_never_cut() -> None:
    changes: list[Message] = [PartitionChangeRecord()] * (2 * LONG_BATCH)
    transaction = [BeginTransactionRecord(), *changes, EndTransactionRecord()]
    assert pieces_of(transaction) == [(8, 2 * LONG_BATCH)]


def test_a_snapshot_is_taken_in_over_several_turns() -> None:
    feed = CommitFeed(SnapshotPolicy(max_bytes=1 << 40, max_interval_ms=0))
    first, second = Listener(), Listener()
    feed.listeners += [first, second]
    feed.appended(AppendedBatch(0, 1, 1, 100, [NoOpRecord()]))
    assert feed.deliver(1, 0, LONG_BATCH)
    count = 2 * LONG_BATCH
    feed.load_snapshot(SnapshotId(5000, 3), iter([NoOpRecord()] * count))
    # Records behind the snapshot may be committed before it is taken in.
    feed.appended(AppendedBatch(5000, 5001, 3, 100, [NoOpRecord()]))
    seen = []
    delivered = False
    while not delivered:
        delivered = feed.deliver(5001, 0, LONG_BATCH)
        seen.append((len(first.offsets), len(second.offsets), feed.applied.offset, feed.amid_batch))
    assert seen == [
        (1, 1, 1, True),  # decoded
        (1, 1, 1, True),  # decoded
        (1, 1, 1, True),
        (count, 1, 1, True),
        (count, 1, 1, True),
        (count, 1, 1, True),
        (count, count, 1, True),
        (count, count, 1, True),
        (count + 1, count + 1, 5001, False),
    ]
    assert feed.applied == SnapshotId(5001, 3)


def test_a_newer_snapshot_takes_the_place_of_one_that_is_being_taken_in() -> None:
    feed, listener = CommitFeed(SnapshotPolicy(max_bytes=1 << 40, max_interval_ms=0)), Listener()
    feed.listeners.append(listener)
    feed.load_snapshot(SnapshotId(5000, 3), iter([NoOpRecord()] * LONG_BATCH))
    assert not feed.deliver(5000, 0, LONG_BATCH)
    feed.load_snapshot(SnapshotId(9000, 4), iter([NoOpRecord()] * 7))
    while not feed.deliver(9000, 0, LONG_BATCH):
        pass
    assert len(listener.offsets) == 7
    assert feed.applied == SnapshotId(9000, 4)


def test_a_snapshot_is_handed_out_whatever_is_known_to_be_committed() -> None:
    """A node that starts knows of no high watermark yet."""
    feed, listener = CommitFeed(SnapshotPolicy(max_bytes=1 << 40, max_interval_ms=0)), Listener()
    feed.listeners.append(listener)
    feed.load_snapshot(SnapshotId(50, 3), iter([NoOpRecord()] * 7))
    while not feed.deliver(0, 0, LONG_BATCH):
        pass
    assert (len(listener.offsets), feed.applied.offset) == (7, 50)
