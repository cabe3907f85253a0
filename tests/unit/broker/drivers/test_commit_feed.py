from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import pytest

from ruslo.broker.drivers.commit_feed import LONG_BATCH, AppendedBatch, CommitFeed
from ruslo.machines.raft.snapshots import SnapshotPolicy
from ruslo.protocol.message import Message
from ruslo.protocol.messages.no_op_record import NoOpRecord


class Listener:
    def __init__(self) -> None:
        self.offsets: list[int] = []

    def handle_commit(self, base_offset: int, epoch: int, records: Sequence[Message]) -> None:
        self.offsets += range(base_offset, base_offset + len(records))

    def handle_snapshot(self, offset: int, epoch: int, records: Iterable[Message]) -> None:
        raise AssertionError("there is none")

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
