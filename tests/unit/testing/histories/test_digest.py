"""What cannot be a history."""

from __future__ import annotations

import pytest

from ruslo.testing.histories import Append, End, Kind, MalformedHistory, check
from tests.support.txns.histories import A, Story


def test_a_completion_needs_an_invocation() -> None:
    story = Story()
    story.event("p", Kind.OK, End("t", True))
    with pytest.raises(MalformedHistory, match="completed without being invoked"):
        check(story.events)


def test_nothing_is_invoked_twice_at_once() -> None:
    story = Story()
    for _ in range(2):
        story.event("p", Kind.INVOKE, End("t", True))
    with pytest.raises(MalformedHistory, match="invoked again"):
        check(story.events)


def test_elements_are_unique() -> None:
    story = Story()
    story.append("t1", A, "a")
    story.append("t2", A, "a")
    with pytest.raises(MalformedHistory, match="elements must be unique"):
        check(story.events)


def test_a_transaction_has_one_process() -> None:
    story = Story()
    story.append("t", A, "a", by="p")
    story.append("t", A, "b", by="q")
    with pytest.raises(MalformedHistory, match="t belongs to p, not to q"):
        check(story.events)


def test_nothing_is_appended_once_a_commit_was_asked_for() -> None:
    story = Story()
    story.append("t", A, "a")
    story.commit("t", Kind.INFO)
    story.append("t", A, "b")
    with pytest.raises(MalformedHistory, match="was asked to commit before"):
        check(story.events)


def test_a_transaction_has_one_end() -> None:
    story = Story()
    story.append("t", A, "a")
    story.commit("t")
    story.abort("t")
    with pytest.raises(MalformedHistory, match="t has two ends"):
        check(story.events)


@pytest.mark.parametrize("records", [{7: "a"}, {3: "a", 2: "b"}, {1: "a"}])
def test_records_lie_within_their_span_and_in_order(records: dict[int, str]) -> None:
    story = Story()
    story.poll(A, 2, 7, records)
    with pytest.raises(MalformedHistory, match="outside of the span"):
        check(story.events)


def test_many_appends_may_be_under_way_at_once() -> None:
    story = Story()
    calls = [Append("t", A, "k", element) for element in "abc"]
    for call in calls:
        story.event("p", Kind.INVOKE, call)
    for call in reversed(calls):
        story.event("p", Kind.OK, call)
    story.commit("t", Kind.INFO)
    story.commit("t")
    assert check(story.events).transactions == {"committed": 1}
