from __future__ import annotations

import pytest

from ruslo.config.validators import (
    HOST_PORTS,
    NOT_BLANK,
    NOT_NULL,
    QUORUM_VOTERS,
    THROTTLED_REPLICAS,
    ConfigValue,
    Items,
    OffsetReset,
    OneOf,
    Range,
    Validator,
    between,
    split_host_port,
    word_list,
)


@pytest.mark.parametrize(
    ("validator", "value"),
    [
        (between(1, 9), 1),
        (between(1, 9), 9),
        (Range(1, 9, also=-1), -1),
        (OneOf("a", "b"), "b"),
        (OneOf("A", ignore_case=True), "a"),
        (Items(), ()),
        (Items("x", "y"), ("y", "x")),
        (Items(may_be_null=True), None),
        (NOT_NULL, ""),
        (NOT_BLANK, None),
        (NOT_BLANK, "x"),
        (THROTTLED_REPLICAS, ("*",)),
        (THROTTLED_REPLICAS, ("0:1", "12:3")),
        (THROTTLED_REPLICAS, ()),
        (QUORUM_VOTERS, ("1@a:9093", "2@[::1]:9093")),
        (HOST_PORTS, ("a:1", "[::1]:65535")),
        (OffsetReset(), "latest"),
        (OffsetReset(), "by_duration:P1DT2H3M4.5S"),
    ],
)
def test_accepted(validator: Validator, value: ConfigValue) -> None:
    assert validator.problem(value) is None


@pytest.mark.parametrize(
    ("validator", "value", "reason", "fix"),
    [
        (between(1, 9), 0, "below the minimum 1", "[1,...,9]"),
        (between(1, 9), 10, "above the maximum 9", "[1,...,9]"),
        (between(0, 1), float("nan"), "below", "[0,...,1]"),
        (between(0, 1), None, "a number is required", "[0,...,1]"),
        (Range(1, 9, also=-1), -2, "below", "[1,...,9] or -1"),
        (OneOf("a", "b"), "A", "not a known value", "a, b"),
        (Items("x", "y"), ("x", "z"), "'z' is not", "x, y"),
        (Items(), ("a", ""), "empty item", "comma"),
        (Items(may_be_empty=False), (), "empty", "at least one"),
        (Items(), None, "a list is required", "at least one"),
        (NOT_NULL, None, "a value is required", "set it"),
        (NOT_BLANK, "", "empty", "remove the line"),
        (THROTTLED_REPLICAS, ("*", "0:1"), "replicas", "0:1,1:2"),
        (QUORUM_VOTERS, ("1@a",), "'1@a' is not a voter", "id@host:port"),
        (QUORUM_VOTERS, ("a:1",), "not a voter", "id@host:port"),
        (HOST_PORTS, ("a:65536",), "not an address", "host:port"),
        (OffsetReset(), "by_duration:PT", "ISO 8601", "PT1H"),
        (OffsetReset(), "none", "known value", "latest"),
    ],
)
def test_rejected_with_reason_and_fix(
    validator: Validator, value: ConfigValue, reason: str, fix: str
) -> None:
    problem = validator.problem(value)
    assert problem is not None
    assert reason in problem.reason
    assert fix in problem.fix


def test_addresses_are_parsed() -> None:
    assert split_host_port("host:9092") == ("host", 9092)
    assert split_host_port("[::1]:9092") == ("::1", 9092)
    assert split_host_port("PLAINTEXT://host:9092") == ("host", 9092)
    assert split_host_port("host") is None


def test_words_in_a_sentence() -> None:
    assert word_list({"b", "a"}) == "a, b"
    assert word_list([]) == "none"
