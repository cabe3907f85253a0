"""The leader of broker 1 with followers 2 and 3, each registered with epoch id * 10."""

from __future__ import annotations

import pytest

from ruslo.machines.replica.isr import Member, Proposal
from ruslo.machines.replica.leader import AfterAnswer, LeaderReplica
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
            node_id=1,
            leader_epoch=LEADER_EPOCH,
            partition_epoch=PARTITION_EPOCH,
            replicas=(1, 2, 3),
            isr=isr,
            epoch_start_offset=epoch_start,
            lag_ms=LAG_MS,
            brokers=self.brokers,
            now_ms=0,
        )

    def fetch(self, broker_id: int, offset: int, broker_epoch: int | None = None) -> Proposal | None:
        follower = self.leader.followers[broker_id]
        epoch = broker_id * 10 if broker_epoch is None else broker_epoch
        follower.fetched(offset, 0, epoch, self.end, self.now_ms)
        self.advance()
        return self.leader.growth(follower, 0, self.high_watermark)

    def advance(self, min_insync_replicas: int = 1) -> int:
        offset = self.leader.high_watermark(self.end, min_insync_replicas, self.now_ms)
        self.high_watermark = max(self.high_watermark, offset)
        return self.high_watermark

    def shrinkage(self) -> Proposal | None:
        return self.leader.shrinkage(self.end, self.now_ms)


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


def test_it_does_not_wait_for_a_follower_outside_the_isr_that_is_far_behind() -> None:
    bench = Bench(isr=(1, 2))
    bench.end = 10
    bench.fetch(2, 10)
    assert bench.fetch(3, 1) is None
    bench.end = 20
    bench.fetch(2, 20)
    assert bench.high_watermark == 20


def test_it_does_not_wait_for_a_follower_that_the_controller_has_taken_out_of_the_isr() -> None:
    """Its broker is alive, but the directory of the replica has failed: it does not fetch any more."""
    bench = Bench()
    bench.end = 10
    bench.fetch(2, 10)
    bench.fetch(3, 10)
    assert bench.high_watermark == 10
    bench.leader.update(PARTITION_EPOCH + 1, (1, 2, 3), (1, 2), bench.now_ms)
    bench.end = 20
    bench.fetch(2, 20)
    assert bench.high_watermark == 20
    bench.now_ms += 1
    proposal = bench.fetch(3, 20)
    assert proposal is not None, "once it has caught up it may come back"
    bench.end = 30
    bench.fetch(2, 30)
    assert bench.high_watermark == 20, "and is waited for again"


def test_it_waits_for_a_follower_that_has_caught_up_and_is_about_to_join() -> None:
    bench = Bench(isr=(1, 2))
    bench.end = 10
    bench.fetch(2, 10)
    proposal = bench.fetch(3, 10)
    assert proposal is not None
    bench.end = 12
    bench.fetch(2, 12)
    assert bench.high_watermark == 10, "3 counts from the moment it is proposed"
    bench.fetch(3, 12)
    assert bench.high_watermark == 12


def test_it_stands_still_while_there_are_fewer_in_sync_replicas_than_promised() -> None:
    bench = Bench(isr=(1,))
    bench.end = 10
    assert bench.advance(min_insync_replicas=2) == 0
    assert bench.leader.is_under_min_isr(2)
    assert not bench.leader.is_under_min_isr(1)


def test_more_replicas_than_there_are_cannot_be_asked_for() -> None:
    bench = Bench()
    assert not bench.leader.is_under_min_isr(5)


def test_a_follower_is_proposed_once_it_reaches_high_watermark_and_epoch_start() -> None:
    bench = Bench(isr=(1, 2), epoch_start=5)
    bench.end = 8
    bench.fetch(2, 8)
    assert bench.high_watermark == 8
    assert bench.fetch(3, 7) is None
    assert bench.fetch(3, 8) == Proposal(
        LEADER_EPOCH, PARTITION_EPOCH, (Member(1, -1), Member(2, 20), Member(3, 30))
    )


@pytest.mark.parametrize("eligible_epoch", [None, 31])
def test_a_fenced_broker_or_another_registration_is_not_proposed(eligible_epoch: int | None) -> None:
    bench = Bench(isr=(1, 2))
    if eligible_epoch is None:
        del bench.brokers.epochs[3]
    else:
        bench.brokers.epochs[3] = eligible_epoch
    assert bench.fetch(3, 0) is None


def test_one_question_at_a_time() -> None:
    bench = Bench(isr=(1,))
    assert bench.fetch(2, 0) is not None
    assert bench.fetch(3, 0) is None
    bench.now_ms = LAG_MS + 1
    bench.end = 5
    assert bench.shrinkage() is None


def test_a_member_that_is_not_caught_up_for_the_lag_time_leaves() -> None:
    bench = Bench()
    bench.end = 10
    bench.fetch(2, 10)
    bench.now_ms = LAG_MS
    assert bench.shrinkage() is None, "3 still has the benefit of the doubt"
    bench.fetch(2, 10)
    bench.now_ms = LAG_MS + 1
    assert bench.shrinkage() == Proposal(LEADER_EPOCH, PARTITION_EPOCH, (Member(1, -1), Member(2, 20)))


def test_a_follower_under_steady_load_counts_as_caught_up_with_the_end_of_its_last_fetch() -> None:
    bench = Bench()
    for _ in range(10):
        bench.now_ms += LAG_MS // 3
        before, bench.end = bench.end, bench.end + 5
        bench.fetch(2, before)
        bench.fetch(3, before)
        assert bench.shrinkage() is None


def test_records_count_as_replicated_only_when_old_and_new_set_have_them() -> None:
    bench = Bench()
    bench.end = 10
    bench.fetch(2, 10)
    bench.now_ms = LAG_MS + 1
    bench.fetch(2, 10)
    proposal = bench.shrinkage()
    assert proposal is not None
    assert bench.advance() == 0, "the controller has not yet taken 3 out"
    after = bench.leader.answered(proposal, ErrorCode.NONE, PARTITION_EPOCH + 1, (1, 2), bench.now_ms)
    assert after is AfterAnswer.DONE
    assert bench.advance() == 10


@pytest.mark.parametrize(
    ("error", "after", "pending"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, AfterAnswer.DONE, False),
        (ErrorCode.NOT_CONTROLLER, AfterAnswer.ASK_AGAIN, True),
        (ErrorCode.UNKNOWN_SERVER_ERROR, AfterAnswer.ASK_AGAIN, True),
        (ErrorCode.FENCED_LEADER_EPOCH, AfterAnswer.AWAIT_METADATA, True),
        (ErrorCode.INVALID_UPDATE_VERSION, AfterAnswer.AWAIT_METADATA, True),
        (ErrorCode.NEW_LEADER_ELECTED, AfterAnswer.AWAIT_METADATA, True),
    ],
)
def test_what_a_refusal_means(error: ErrorCode, after: AfterAnswer, pending: bool) -> None:
    bench = Bench(isr=(1, 2))
    proposal = bench.fetch(3, 0)
    assert proposal is not None
    assert bench.leader.answered(proposal, error, -1, (), 0) is after
    assert (bench.leader.isr.pending is proposal) is pending
    assert bench.leader.isr.committed == (1, 2)


def test_the_metadata_overrule_a_proposal() -> None:
    bench = Bench(isr=(1, 2))
    proposal = bench.fetch(3, 0)
    assert proposal is not None
    bench.leader.update(PARTITION_EPOCH + 1, (1, 2, 3), (1,), 0)
    assert bench.leader.isr.pending is None
    assert bench.leader.isr.committed == (1,)
    late = bench.leader.answered(proposal, ErrorCode.NONE, PARTITION_EPOCH, (1, 2, 3), 0)
    assert late is AfterAnswer.DONE
    assert bench.leader.isr.committed == (1,)


def test_old_metadata_change_nothing() -> None:
    bench = Bench(isr=(1, 2))
    bench.leader.update(PARTITION_EPOCH, (1, 2), (1,), 0)
    assert bench.leader.isr.committed == (1, 2)
    assert set(bench.leader.followers) == {2, 3}


def test_a_replica_that_was_given_to_another_broker_is_forgotten() -> None:
    bench = Bench()
    bench.end = 10
    bench.leader.update(PARTITION_EPOCH + 1, (1, 2), (1, 2), 0)
    bench.fetch(2, 10)
    assert bench.high_watermark == 10
    assert set(bench.leader.followers) == {2}


def test_the_low_watermark_is_the_least_start_of_who_may_lead_next() -> None:
    bench = Bench(isr=(1, 2))
    leader = bench.leader
    assert leader.low_watermark(5) == -1, "the follower has not fetched yet"
    leader.followers[2].fetched(9, 4, 20, 9, 0)
    leader.followers[3].fetched(9, 2, 30, 9, 0)
    assert leader.low_watermark(5) == 4, "who is not in sync does not count"
    assert leader.low_watermark(3) == 3
    assert leader.growth(leader.followers[3], 2, 9) is not None
    assert leader.low_watermark(5) == 2, "it may be in sync already"


def test_who_still_has_deleted_records_does_not_join() -> None:
    """If it led next, they would come back."""
    bench = Bench(isr=(1, 2))
    leader, late = bench.leader, bench.leader.followers[3]
    late.fetched(9, 2, 30, 9, 0)
    assert leader.growth(late, 3, 9) is None
    late.fetched(9, 3, 30, 9, 0)
    assert leader.growth(late, 3, 9) is not None
