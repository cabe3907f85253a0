"""The check of the assignments that assignors return."""

from __future__ import annotations

import pytest

from ruslo.machines.assignors.check import checked
from ruslo.machines.assignors.spec import AssignorError
from tests.support.groups.assignor_specs import group, member, topic, topic_id

T, U = topic_id("t"), topic_id("u")
SPEC = group([topic("t", 2), topic("u", 1)], [member("a", ["t", "u"]), member("b", ["t"])])


def test_valid_assignments_are_normalized() -> None:
    assert checked(SPEC, {"a": {T: [1, 1], U: (0,)}, "b": {T: {0}}}) == {
        "a": {T: frozenset({1}), U: frozenset({0})},
        "b": {T: frozenset({0})},
    }
    assert checked(SPEC, {"a": {T: range(2), U: iter([0])}, "b": {T: []}})["b"] == {}


@pytest.mark.parametrize(
    ("assignment", "problem"),
    [
        (None, "returned a NoneType, not a mapping"),
        ([("a", {})], "returned a list"),
        ({"c": {T: [0]}}, "'c', which is not a member"),
        ({7: {}}, "7, which is not a member"),
        ({"a": [T]}, "gave member 'a' a list"),
        ({"a": {b"x" * 16: [0]}}, "a topic that no member subscribes to: eHh4eHh4eHh4eHh4eHh4eA"),
        ({"a": {"t": [0]}}, "no member subscribes to: 't'"),
        ({"b": {U: [0]}}, "gave member 'b' topic 'u', which it does not subscribe to"),
        ({"a": {T: 0}}, "gave a int as the partitions of 't'"),
        ({"a": {T: [2]}}, "assigned t-2; the topic has partitions 0 to 1"),
        ({"a": {T: [-1]}}, "assigned t--1"),
        ({"a": {T: ["0"]}}, "assigned t-'0'"),
        ({"a": {T: [True]}}, "assigned t-True"),
        ({"a": {T: [0], U: [0]}, "b": {T: [0, 1]}}, "assigned t-0 to both 'a' and 'b'"),
        ({"a": {T: [0], U: [0]}}, "did not assign t-1"),
        ({}, "did not assign t-0"),
    ],
)
def test_invalid_assignments_are_explained(assignment: object, problem: str) -> None:
    with pytest.raises(AssignorError) as caught:
        checked(SPEC, assignment)
    assert problem in str(caught.value)


def test_group_without_topics_needs_no_assignment() -> None:
    assert checked(group([], [member("a", [])]), {}) == {}
