"""Malformed histories."""

from __future__ import annotations

import pytest

from ruslo.testing.histories import Append, End, Kind, MalformedHistory, check
from tests.support.txns.histories import A, HistoryBuilder


def test_a_completion_needs_an_invocation() -> None:
    history = HistoryBuilder()
    history.event("p", Kind.OK, End("t", True))
    with pytest.raises(MalformedHistory, match="completed without an invocation"):
        check(history.events)


def test_call_is_not_invoked_twice_at_once() -> None:
    history = HistoryBuilder()
    for _ in range(2):
        history.event("p", Kind.INVOKE, End("t", True))
    with pytest.raises(MalformedHistory, match="invoked again"):
        check(history.events)


def test_elements_are_unique() -> None:
    history = HistoryBuilder()
    history.append("t1", A, "a")
    history.append("t2", A, "a")
    with pytest.raises(MalformedHistory, match="elements must be unique"):
        check(history.events)


def test_a_transaction_has_one_process() -> None:
    history = HistoryBuilder()
    history.append("t", A, "a", by="p")
    history.append("t", A, "b", by="q")
    with pytest.raises(MalformedHistory, match="t belongs to p, not to q"):
        check(history.events)


def test_nothing_is_appended_after_a_commit_call() -> None:
    history = HistoryBuilder()
    history.append("t", A, "a")
    history.commit("t", Kind.INFO)
    history.append("t", A, "b")
    with pytest.raises(MalformedHistory, match="already has a commit call"):
        check(history.events)


def test_a_transaction_has_one_end() -> None:
    history = HistoryBuilder()
    history.append("t", A, "a")
    history.commit("t")
    history.abort("t")
    with pytest.raises(MalformedHistory, match="t has two ends"):
        check(history.events)


@pytest.mark.parametrize("records", [{7: "a"}, {3: "a", 2: "b"}, {1: "a"}])
def test_records_are_within_their_range_and_in_order(records: dict[int, str]) -> None:
    history = HistoryBuilder()
    history.poll(A, 2, 7, records)
    with pytest.raises(MalformedHistory, match="outside the range"):
        check(history.events)


def test_appends_may_be_concurrent() -> None:
    history = HistoryBuilder()
    calls = [Append("t", A, "k", element) for element in "abc"]
    for call in calls:
        history.event("p", Kind.INVOKE, call)
    for call in reversed(calls):
        history.event("p", Kind.OK, call)
    history.commit("t", Kind.INFO)
    history.commit("t")
    assert check(history.events).transactions == {"committed": 1}
