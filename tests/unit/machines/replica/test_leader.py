"""Broker 1 leads, brokers 2 and 3 follow; the broker epoch of each is its id times 10."""

from __future__ import annotations

import pytest

from ruslo.machines.replica.isr import Member, Proposal
from ruslo.machines.replica.leader import AfterResponse, LeaderReplica, Replicas
from ruslo.model.errors import ErrorCode

LAG_MS = 30_000
LEADER_EPOCH = 4
PARTITION_EPOCH = 7


class Brokers:
    def __init__(self) -> None:
        self.epochs: dict[int, int] = {1: 10, 2: 20, 3: 30}

    def eligible_epoch(self, broker_id: int) -> int | None:
        return self.epochs.get(broker_id)


class Bench:
    def __init__(self, isr: tuple[int, ...] = (1, 2, 3), *, epoch_start: int = 0) -> None:
        self.brokers = Brokers()
        self.end = epoch_start
        self.now_ms = 0
        self.high_watermark = 0
        self.leader = LeaderReplica(
            Replicas(PARTITION_EPOCH, (1, 2, 3), isr),
            self.now_ms,
            node_id=1,
            leader_epoch=LEADER_EPOCH,
            epoch_start_offset=epoch_start,
            lag_ms=LAG_MS,
            brokers=self.brokers,
        )

    def fetch(self, broker_id: int, offset: int, broker_epoch: int | None = None) -> Proposal | None:
        follower = self.leader.followers[broker_id]
        epoch = broker_id * 10 if broker_epoch is None else broker_epoch
        follower.on_fetch(offset, 0, epoch, self.end, self.now_ms)
        self.advance()
        return self.leader.expand_isr(follower, 0, self.high_watermark)

    def advance(self, min_insync_replicas: int = 1) -> int:
        offset = self.leader.high_watermark(self.end, min_insync_replicas, self.now_ms)
        self.high_watermark = max(self.high_watermark, offset)
        return self.high_watermark

    def shrink_isr(self) -> Proposal | None:
        return self.leader.shrink_isr(self.end, self.now_ms)


def test_the_high_watermark_waits_for_every_member_of_the_isr() -> None:
    bench = Bench()
    bench.end = 10
    assert bench.advance() == 0
    bench.fetch(2, 10)
    assert bench.high_watermark == 0
    bench.fetch(3, 6)
    assert bench.high_watermark == 6
    bench.fetch(3, 10)
    assert bench.high_watermark == 10


def test_the_high_watermark_does_not_wait_for_a_follower_outside_the_isr_that_is_far_behind() -> None:
    bench = Bench(isr=(1, 2))
    bench.end = 10
    bench.fetch(2, 10)
    assert bench.fetch(3, 1) is None
    bench.end = 20
    bench.fetch(2, 20)
    assert bench.high_watermark == 20


def test_the_high_watermark_does_not_wait_for_a_follower_that_the_controller_removed_from_the_isr() -> None:
    """Its broker is alive, but the log directory of the replica has failed: it no longer fetches."""
    bench = Bench()
    bench.end = 10
    bench.fetch(2, 10)
    bench.fetch(3, 10)
    assert bench.high_watermark == 10
    bench.leader.update(Replicas(PARTITION_EPOCH + 1, (1, 2, 3), (1, 2)), bench.now_ms)
    bench.end = 20
    bench.fetch(2, 20)
    assert bench.high_watermark == 20
    bench.now_ms += 1
    proposal = bench.fetch(3, 20)
    assert proposal is not None, "it may rejoin once it has caught up"
    bench.end = 30
    bench.fetch(2, 30)
    assert bench.high_watermark == 20, "the high watermark waits for it again"


def test_the_high_watermark_waits_for_a_follower_that_is_about_to_join_the_isr() -> None:
    bench = Bench(isr=(1, 2))
    bench.end = 10
    bench.fetch(2, 10)
    proposal = bench.fetch(3, 10)
    assert proposal is not None
    bench.end = 12
    bench.fetch(2, 12)
    assert bench.high_watermark == 10, "broker 3 counts from the moment it is proposed"
    bench.fetch(3, 12)
    assert bench.high_watermark == 12


def test_the_high_watermark_does_not_advance_under_min_isr() -> None:
    bench = Bench(isr=(1,))
    bench.end = 10
    assert bench.advance(min_insync_replicas=2) == 0
    assert bench.leader.is_under_min_isr(2)
    assert not bench.leader.is_under_min_isr(1)


def test_min_insync_replicas_counts_at_most_as_the_number_of_replicas() -> None:
    bench = Bench()
    assert not bench.leader.is_under_min_isr(5)


def test_a_follower_is_proposed_once_it_reaches_the_high_watermark_and_the_epoch_start() -> None:
    bench = Bench(isr=(1, 2), epoch_start=5)
    bench.end = 8
    bench.fetch(2, 8)
    assert bench.high_watermark == 8
    assert bench.fetch(3, 7) is None
    assert bench.fetch(3, 8) == Proposal(
        LEADER_EPOCH, PARTITION_EPOCH, (Member(1, -1), Member(2, 20), Member(3, 30))
    )


@pytest.mark.parametrize("eligible_epoch", [None, 31])
def test_a_fenced_broker_or_an_old_broker_epoch_is_not_proposed(eligible_epoch: int | None) -> None:
    bench = Bench(isr=(1, 2))
    if eligible_epoch is None:
        del bench.brokers.epochs[3]
    else:
        bench.brokers.epochs[3] = eligible_epoch
    assert bench.fetch(3, 0) is None


def test_only_one_proposal_is_pending_at_a_time() -> None:
    bench = Bench(isr=(1,))
    assert bench.fetch(2, 0) is not None
    assert bench.fetch(3, 0) is None
    bench.now_ms = LAG_MS + 1
    bench.end = 5
    assert bench.shrink_isr() is None


def test_a_member_that_was_not_caught_up_for_the_lag_time_leaves_the_isr() -> None:
    bench = Bench()
    bench.end = 10
    bench.fetch(2, 10)
    bench.now_ms = LAG_MS
    assert bench.shrink_isr() is None, "broker 3 counted as caught up when the leadership began"
    bench.fetch(2, 10)
    bench.now_ms = LAG_MS + 1
    assert bench.shrink_isr() == Proposal(LEADER_EPOCH, PARTITION_EPOCH, (Member(1, -1), Member(2, 20)))


def test_a_follower_under_steady_load_counts_as_caught_up() -> None:
    bench = Bench()
    for _ in range(10):
        bench.now_ms += LAG_MS // 3
        before, bench.end = bench.end, bench.end + 5
        bench.fetch(2, before)
        bench.fetch(3, before)
        assert bench.shrink_isr() is None


def test_records_are_committed_only_when_the_maximal_isr_has_them() -> None:
    bench = Bench()
    bench.end = 10
    bench.fetch(2, 10)
    bench.now_ms = LAG_MS + 1
    bench.fetch(2, 10)
    proposal = bench.shrink_isr()
    assert proposal is not None
    assert bench.advance() == 0, "the controller has not removed broker 3 yet"
    after = bench.leader.on_response(proposal, ErrorCode.NONE, PARTITION_EPOCH + 1, (1, 2))
    assert after is AfterResponse.DONE
    assert bench.advance() == 10


@pytest.mark.parametrize(
    ("error", "after", "pending"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, AfterResponse.DONE, False),
        (ErrorCode.NOT_CONTROLLER, AfterResponse.RETRY, True),
        (ErrorCode.UNKNOWN_SERVER_ERROR, AfterResponse.RETRY, True),
        (ErrorCode.FENCED_LEADER_EPOCH, AfterResponse.AWAIT_METADATA, True),
        (ErrorCode.INVALID_UPDATE_VERSION, AfterResponse.AWAIT_METADATA, True),
        (ErrorCode.NEW_LEADER_ELECTED, AfterResponse.AWAIT_METADATA, True),
    ],
)
def test_error_responses_to_a_proposal(error: ErrorCode, after: AfterResponse, pending: bool) -> None:
    bench = Bench(isr=(1, 2))
    proposal = bench.fetch(3, 0)
    assert proposal is not None
    assert bench.leader.on_response(proposal, error, -1, ()) is after
    assert (bench.leader.isr.pending is proposal) is pending
    assert bench.leader.isr.committed == (1, 2)


def test_newer_metadata_ends_a_proposal() -> None:
    bench = Bench(isr=(1, 2))
    proposal = bench.fetch(3, 0)
    assert proposal is not None
    bench.leader.update(Replicas(PARTITION_EPOCH + 1, (1, 2, 3), (1,)), 0)
    assert bench.leader.isr.pending is None
    assert bench.leader.isr.committed == (1,)
    late = bench.leader.on_response(proposal, ErrorCode.NONE, PARTITION_EPOCH, (1, 2, 3))
    assert late is AfterResponse.DONE
    assert bench.leader.isr.committed == (1,)


def test_old_metadata_changes_nothing() -> None:
    bench = Bench(isr=(1, 2))
    bench.leader.update(Replicas(PARTITION_EPOCH, (1, 2), (1,)), 0)
    assert bench.leader.isr.committed == (1, 2)
    assert set(bench.leader.followers) == {2, 3}


def test_a_removed_replica_is_forgotten() -> None:
    bench = Bench()
    bench.end = 10
    bench.leader.update(Replicas(PARTITION_EPOCH + 1, (1, 2), (1, 2)), 0)
    bench.fetch(2, 10)
    assert bench.high_watermark == 10
    assert set(bench.leader.followers) == {2}


def test_the_low_watermark_is_the_smallest_log_start_offset_of_the_maximal_isr() -> None:
    bench = Bench(isr=(1, 2))
    leader = bench.leader
    assert leader.low_watermark(5) == -1, "the follower has not fetched yet"
    leader.followers[2].on_fetch(9, 4, 20, 9, 0)
    leader.followers[3].on_fetch(9, 2, 30, 9, 0)
    assert leader.low_watermark(5) == 4, "a replica outside the ISR does not count"
    assert leader.low_watermark(3) == 3
    assert leader.expand_isr(leader.followers[3], 2, 9) is not None
    assert leader.low_watermark(5) == 2, "the controller may have committed the expansion already"


def test_a_follower_that_still_has_deleted_records_does_not_join_the_isr() -> None:
    """If it led next, the records would come back."""
    bench = Bench(isr=(1, 2))
    leader, late = bench.leader, bench.leader.followers[3]
    late.on_fetch(9, 2, 30, 9, 0)
    assert leader.expand_isr(late, 3, 9) is None
    late.on_fetch(9, 3, 30, 9, 0)
    assert leader.expand_isr(late, 3, 9) is not None
