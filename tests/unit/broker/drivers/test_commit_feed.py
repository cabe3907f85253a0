from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest

from ruslo.broker.drivers.commit_feed import AppendedBatch, CommitFeed
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
