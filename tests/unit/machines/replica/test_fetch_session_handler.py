"""The follower's side of fetch sessions: what each request lists and forgets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruslo.machines.replica import fetch_session_handler
from ruslo.machines.replica.fetch_session_handler import (
    MAX_ADDED_PARTITIONS,
    MAX_EPOCH,
    FetchSessionHandler,
    NextFetch,
    PartitionFetch,
    TopicIdPartition,
)

TOPIC = bytes(15) + b"\x01"
A, B, C = (TOPIC, 0), (TOPIC, 1), (TOPIC, 2)


def fetch_at(offset: int) -> PartitionFetch:
    return PartitionFetch(leader_epoch=1, fetch_offset=offset, last_fetched_epoch=0, log_start_offset=0)


def test_the_first_request_lists_every_partition_and_later_ones_what_changed() -> None:
    session = FetchSessionHandler()
    session.add(A, fetch_at(1))
    session.add(B, fetch_at(2))
    first = session.next_request()
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert dict(first.listed) == {A: fetch_at(1), B: fetch_at(2)}
    session.on_response(77)
    session.add(A, fetch_at(1))
    session.add(B, fetch_at(5))
    second = session.next_request()
    assert second == (77, 1, [(B, fetch_at(5))], [], False)
    session.on_response(77)
    assert session.next_request() == (77, 2, [], [], False)


def test_a_removed_partition_is_forgotten_once() -> None:
    session = FetchSessionHandler()
    session.add(A, fetch_at(1))
    session.add(B, fetch_at(2))
    session.next_request()
    session.on_response(77)
    session.remove(A)
    session.remove(C)
    assert session.next_request() == (77, 1, [], [A], False)
    session.on_response(77)
    assert session.next_request() == (77, 2, [], [], False)
    assert (len(session), A in session, B in session) == (1, False, True)


def test_a_partition_that_is_added_again_is_listed_and_not_forgotten() -> None:
    session = FetchSessionHandler()
    session.add(A, fetch_at(1))
    session.next_request()
    session.on_response(77)
    session.remove(A)
    session.add(A, fetch_at(9))
    assert session.next_request() == (77, 1, [(A, fetch_at(9))], [], False)


def test_without_a_session_every_request_is_full() -> None:
    session = FetchSessionHandler()
    session.add(A, fetch_at(1))
    for _ in range(3):
        request = session.next_request()
        assert (request.session_id, request.session_epoch) == (0, 0)
        assert request.listed == [(A, fetch_at(1))]
        session.on_response(0)


def test_after_a_reset_every_partition_is_listed_again() -> None:
    session = FetchSessionHandler()
    session.add(A, fetch_at(1))
    session.next_request()
    session.on_response(77)
    session.add(B, fetch_at(2))
    session.next_request()
    session.reset()
    request = session.next_request()
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert dict(request.listed) == {A: fetch_at(1), B: fetch_at(2)}


def test_the_session_epoch_wraps_to_1() -> None:
    session = FetchSessionHandler()
    session.add(A, fetch_at(1))
    session.next_request()
    session.on_response(77)
    session._epoch = MAX_EPOCH
    session.next_request()
    session.on_response(77)
    assert session.next_request().session_epoch == 1


class Leader:
    """A leader's session (KIP-227): it updates the listed partitions and drops the forgotten ones."""

    def __init__(self) -> None:
        self.session: dict[TopicIdPartition, PartitionFetch] = {}

    def receive(self, request: NextFetch) -> None:
        if request.session_epoch == 0:
            self.session.clear()
        self.session.update(request.listed)
        for tp in request.forgotten:
            self.session.pop(tp, None)


def topic_partitions(count: int) -> list[TopicIdPartition]:
    return [(TOPIC, index) for index in range(count)]


def test_thousands_of_partitions_are_added_over_several_requests() -> None:
    session, leader = FetchSessionHandler(), Leader()
    all_partitions = topic_partitions(2 * MAX_ADDED_PARTITIONS + 1)
    for tp in all_partitions:
        session.add(tp, fetch_at(1))
    partial = []
    for _ in range(3):
        request = session.next_request()
        assert len(request.listed) <= MAX_ADDED_PARTITIONS
        partial.append(request.is_partial)
        leader.receive(request)
        session.on_response(77)
    assert partial == [True, True, False]
    assert leader.session == dict.fromkeys(all_partitions, fetch_at(1))
    assert session.next_request().listed == []


def test_partitions_in_the_session_are_updated_at_once() -> None:
    """Otherwise the leader would send the same records again."""
    session, leader = FetchSessionHandler(), Leader()
    all_partitions = topic_partitions(2 * MAX_ADDED_PARTITIONS)
    for tp in all_partitions:
        session.add(tp, fetch_at(1))
    for _ in range(2):
        leader.receive(session.next_request())
        session.on_response(77)
    for tp in all_partitions:
        session.add(tp, fetch_at(2))
    request = session.next_request()
    assert not request.is_partial
    leader.receive(request)
    assert leader.session == dict.fromkeys(all_partitions, fetch_at(2))


def test_a_partition_added_again_is_forgotten_until_a_request_has_room_for_it() -> None:
    """A response for the previous epoch would stop its replication."""
    session, leader = FetchSessionHandler(), Leader()
    all_partitions = topic_partitions(MAX_ADDED_PARTITIONS + 10)
    for tp in all_partitions:
        session.add(tp, fetch_at(1))
    for _ in range(2):
        leader.receive(session.next_request())
        session.on_response(77)
    for tp in all_partitions:
        session.remove(tp)
        session.add(tp, fetch_at(2))
    request = session.next_request()
    assert request.is_partial
    leader.receive(request)
    assert leader.session == dict.fromkeys(all_partitions[:MAX_ADDED_PARTITIONS], fetch_at(2))
    session.on_response(77)
    session.remove(all_partitions[-1])
    request = session.next_request()
    assert not request.is_partial
    leader.receive(request)
    assert leader.session == dict.fromkeys(all_partitions[:-1], fetch_at(2))


def test_without_sessions_every_request_lists_thousands_of_partitions() -> None:
    session, all_partitions = FetchSessionHandler(), topic_partitions(MAX_ADDED_PARTITIONS + 10)
    for tp in all_partitions:
        session.add(tp, fetch_at(1))
    assert session.next_request().is_partial
    session.on_response(0)
    for _ in range(2):
        request = session.next_request()
        assert (len(request.listed), request.is_partial) == (len(all_partitions), False)
        session.on_response(0)
    session.reset()
    assert session.next_request().is_partial, "the next leader may grant a session"


@given(
    st.lists(st.tuples(st.sampled_from(["add", "remove", "next", "reset"]), st.integers(0, 7)), max_size=60)
)
def test_session_always_has_the_latest_fetch_offsets(steps: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch_session_handler, "MAX_ADDED_PARTITIONS", 2)
        session, leader, model = FetchSessionHandler(), Leader(), dict[TopicIdPartition, PartitionFetch]()
        for number, (step, index) in enumerate([*steps, *[("next", 0)] * 6]):
            tp = (TOPIC, index)
            if step == "add":
                model[tp] = fetch_at(number)
                session.add(tp, model[tp])
            elif step == "remove":
                model.pop(tp, None)
                session.remove(tp)
            elif step == "reset":
                session.reset()
            else:
                leader.receive(session.next_request())
                session.on_response(77)
                assert leader.session.items() <= model.items()
        assert leader.session == model
