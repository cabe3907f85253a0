from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruslo.machines.replica import fetch_plan
from ruslo.machines.replica.fetch_plan import MAX_EPOCH, NEW_AT_MOST, FetchPlan, Place, PlannedFetch, Wanted

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
    assert second == (77, 1, [(B, wanted(5))], [], False)
    plan.answered(77)
    assert plan.next() == (77, 2, [], [], False)


def test_a_partition_that_is_dropped_is_forgotten_once() -> None:
    plan = FetchPlan()
    plan.want(A, wanted(1))
    plan.want(B, wanted(2))
    plan.next()
    plan.answered(77)
    plan.drop(A)
    plan.drop(C)
    assert plan.next() == (77, 1, [], [A], False)
    plan.answered(77)
    assert plan.next() == (77, 2, [], [], False)
    assert (len(plan), A in plan, B in plan) == (1, False, True)


def test_a_partition_that_comes_back_is_listed_and_not_forgotten() -> None:
    plan = FetchPlan()
    plan.want(A, wanted(1))
    plan.next()
    plan.answered(77)
    plan.drop(A)
    plan.want(A, wanted(9))
    assert plan.next() == (77, 1, [(A, wanted(9))], [], False)


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


class Leader:
    """Keeps a session as leaders do (KIP-227): what is listed is added or updated, then some is removed."""

    def __init__(self) -> None:
        self.session: dict[Place, Wanted] = {}

    def take(self, request: PlannedFetch) -> None:
        if request.session_epoch == 0:
            self.session.clear()
        self.session.update(request.listed)
        for place in request.forgotten:
            self.session.pop(place, None)


def places(count: int) -> list[Place]:
    return [(TOPIC, index) for index in range(count)]


def test_a_session_of_thousands_is_filled_over_several_requests() -> None:
    plan, leader = FetchPlan(), Leader()
    everywhere = places(2 * NEW_AT_MOST + 1)
    for place in everywhere:
        plan.want(place, wanted(1))
    partial = []
    for _ in range(3):
        request = plan.next()
        assert len(request.listed) <= NEW_AT_MOST
        partial.append(request.is_partial)
        leader.take(request)
        plan.answered(77)
    assert partial == [True, True, False]
    assert leader.session == dict.fromkeys(everywhere, wanted(1))
    assert plan.next().listed == []


def test_what_the_leader_knows_is_never_out_of_date() -> None:
    """It would send the same records once more."""
    plan, leader = FetchPlan(), Leader()
    everywhere = places(2 * NEW_AT_MOST)
    for place in everywhere:
        plan.want(place, wanted(1))
    for _ in range(2):
        leader.take(plan.next())
        plan.answered(77)
    for place in everywhere:
        plan.want(place, wanted(2))
    request = plan.next()
    assert not request.is_partial
    leader.take(request)
    assert leader.session == dict.fromkeys(everywhere, wanted(2))


def test_what_is_followed_anew_is_forgotten_until_there_is_room_to_list_it() -> None:
    """An answer in the epoch before would take it out of replication."""
    plan, leader = FetchPlan(), Leader()
    everywhere = places(NEW_AT_MOST + 10)
    for place in everywhere:
        plan.want(place, wanted(1))
    for _ in range(2):
        leader.take(plan.next())
        plan.answered(77)
    for place in everywhere:
        plan.drop(place)
        plan.want(place, wanted(2))
    request = plan.next()
    assert request.is_partial
    leader.take(request)
    assert leader.session == dict.fromkeys(everywhere[:NEW_AT_MOST], wanted(2))
    plan.answered(77)
    plan.drop(everywhere[-1])
    request = plan.next()
    assert not request.is_partial
    leader.take(request)
    assert leader.session == dict.fromkeys(everywhere[:-1], wanted(2))


def test_a_leader_without_sessions_is_asked_for_everything_each_time() -> None:
    plan, everywhere = FetchPlan(), places(NEW_AT_MOST + 10)
    for place in everywhere:
        plan.want(place, wanted(1))
    assert plan.next().is_partial
    plan.answered(0)
    for _ in range(2):
        request = plan.next()
        assert (len(request.listed), request.is_partial) == (len(everywhere), False)
        plan.answered(0)
    plan.restart()
    assert plan.next().is_partial, "another leader, another try"


@given(
    st.lists(st.tuples(st.sampled_from(["want", "drop", "next", "restart"]), st.integers(0, 7)), max_size=60)
)
def test_the_leader_is_told_all_in_the_end_and_nothing_stale_ever(steps: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch_plan, "NEW_AT_MOST", 2)
        plan, leader, model = FetchPlan(), Leader(), dict[Place, Wanted]()
        for number, (step, index) in enumerate([*steps, *[("next", 0)] * 6]):
            place = (TOPIC, index)
            if step == "want":
                model[place] = wanted(number)
                plan.want(place, model[place])
            elif step == "drop":
                model.pop(place, None)
                plan.drop(place)
            elif step == "restart":
                plan.restart()
            else:
                leader.take(plan.next())
                plan.answered(77)
                assert leader.session.items() <= model.items()
        assert leader.session == model
