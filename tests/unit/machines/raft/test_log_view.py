from __future__ import annotations

import pytest

from ruslo.machines.raft.log_view import LogView
from ruslo.machines.raft.rpc import EpochEnd
from ruslo.machines.raft.snapshots import SnapshotId
from ruslo.machines.raft.voters import Voter, VoterSet
from ruslo.protocol.messages.kraft_version_record import KRaftVersionRecord

SNAPSHOT = SnapshotId(10, 3)


@pytest.fixture
def log() -> LogView:
    """Epoch 1 has offsets 0 to 4, epoch 3 has 5 to 9, epoch 4 has 10 and 11."""
    return LogView(end_offset=12, epochs=[(1, 0), (3, 5), (4, 10)])


@pytest.mark.parametrize(
    ("offset", "last_epoch", "expected"),
    [
        (0, 0, None),
        (5, 1, None),
        (3, 1, None),
        (12, 4, None),
        (6, 1, EpochEnd(1, 5)),  # The follower's epoch 1 is longer.
        (8, 2, EpochEnd(1, 5)),  # The leader never had epoch 2.
        (13, 4, EpochEnd(4, 12)),
        (20, 9, EpochEnd(4, 12)),
    ],
)
def test_follower_log_matches_or_diverges(
    log: LogView, offset: int, last_epoch: int, expected: EpochEnd | None
) -> None:
    assert log.check_position(offset, last_epoch) == expected


@pytest.mark.parametrize(
    ("offset", "last_epoch", "expected"),
    [
        (0, 0, SNAPSHOT),
        (9, 3, SNAPSHOT),
        (10, 3, None),
        (10, 2, SNAPSHOT),
        (11, 4, None),
        (11, 3, EpochEnd(3, 10)),
    ],
)
def test_positions_around_a_snapshot(
    offset: int, last_epoch: int, expected: EpochEnd | SnapshotId | None
) -> None:
    log = LogView(end_offset=12, epochs=[(4, 10)], start_offset=10, snapshot=SNAPSHOT)
    assert log.check_position(offset, last_epoch) == expected


@pytest.mark.parametrize(
    ("leaders", "truncate_to"),
    [(EpochEnd(3, 7), 7), (EpochEnd(3, 20), 10), (EpochEnd(2, 6), 5), (EpochEnd(0, 0), 0)],
)
def test_truncation_offset(log: LogView, leaders: EpochEnd, truncate_to: int) -> None:
    assert log.truncation_for(leaders) == truncate_to


def test_truncated_control_records_are_not_in_force(log: LogView) -> None:
    first, second = VoterSet((Voter(1),)), VoterSet((Voter(1), Voter(2)))
    log.replay(KRaftVersionRecord(kraft_version=1), 6)
    log.replay(first.to_record(), 7)
    log.replay(second.to_record(), 11)
    assert (log.voters, log.former_voters, log.voters_offset) == (second, first, 11)
    assert log.quorum_records_before(10)[1] == first.to_record()
    log.truncated(10)
    assert (log.voters, log.last_epoch, log.end_offset, log.flushed_offset) == (first, 3, 10, 10)
    log.truncated(5)
    assert (log.voters, log.kraft_version, log.last_epoch) == (None, 0, 1)
    assert log.quorum_records_before(5) == ()


def test_sync_during_a_truncation_does_not_count_beyond_the_new_end(log: LogView) -> None:
    log.truncated(8)
    log.flushed(12)
    assert log.flushed_offset == 8


def test_snapshot_replaces_the_log(log: LogView) -> None:
    log.snapshot_loaded(SnapshotId(30, 7), (KRaftVersionRecord(kraft_version=1),))
    assert (log.start_offset, log.end_offset, log.last_epoch) == (30, 30, 7)
    assert log.check_position(30, 7) is None
    log.appended(31, 8)
    log.truncated(30)
    assert log.last_epoch == 7, "the snapshot's epoch is kept"


def test_truncation_to_the_latest_snapshot_keeps_its_epoch(log: LogView) -> None:
    log.snapshot_taken(SnapshotId(10, 3), start_offset=10)
    log.truncated(10)
    assert (log.end_offset, log.last_epoch) == (10, 3)
