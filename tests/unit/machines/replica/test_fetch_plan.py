from __future__ import annotations

from ruslo.machines.replica.fetch_plan import MAX_EPOCH, FetchPlan, Wanted

TOPIC = bytes(15) + b"\x01"
A, B, C = (TOPIC, 0), (TOPIC, 1), (TOPIC, 2)


def wanted(offset: int) -> Wanted:
    return Wanted(leader_epoch=1, fetch_offset=offset, last_fetched_epoch=0, log_start_offset=0)


def test_the_first_request_lists_everything_and_later_ones_what_has_changed() -> None:
    plan = FetchPlan()
    plan.want(A, wanted(1))
    plan.want(B, wanted(2))
    first = plan.next()
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert dict(first.listed) == {A: wanted(1), B: wanted(2)}
    plan.answered(77)
    plan.want(A, wanted(1))
    plan.want(B, wanted(5))
    second = plan.next()
    assert second == (77, 1, [(B, wanted(5))], [])
    plan.answered(77)
    assert plan.next() == (77, 2, [], [])


def test_a_partition_that_is_dropped_is_forgotten_once() -> None:
    plan = FetchPlan()
    plan.want(A, wanted(1))
    plan.want(B, wanted(2))
    plan.next()
    plan.answered(77)
    plan.drop(A)
    plan.drop(C)
    assert plan.next() == (77, 1, [], [A])
    plan.answered(77)
    assert plan.next() == (77, 2, [], [])
    assert (len(plan), A in plan, B in plan) == (1, False, True)


def test_a_partition_that_comes_back_is_listed_and_not_forgotten() -> None:
    plan = FetchPlan()
    plan.want(A, wanted(1))
    plan.next()
    plan.answered(77)
    plan.drop(A)
    plan.want(A, wanted(9))
    assert plan.next() == (77, 1, [(A, wanted(9))], [])


def test_without_a_session_every_request_is_full() -> None:
    plan = FetchPlan()
    plan.want(A, wanted(1))
    for _ in range(3):
        request = plan.next()
        assert (request.session_id, request.session_epoch) == (0, 0)
        assert request.listed == [(A, wanted(1))]
        plan.answered(0)


def test_after_a_restart_everything_is_listed_again() -> None:
    plan = FetchPlan()
    plan.want(A, wanted(1))
    plan.next()
    plan.answered(77)
    plan.want(B, wanted(2))
    plan.next()
    plan.restart()
    request = plan.next()
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert dict(request.listed) == {A: wanted(1), B: wanted(2)}


def test_the_epoch_begins_anew_after_the_largest() -> None:
    plan = FetchPlan()
    plan.want(A, wanted(1))
    plan.next()
    plan.answered(77)
    plan._epoch = MAX_EPOCH
    plan.next()
    plan.answered(77)
    assert plan.next().session_epoch == 1
