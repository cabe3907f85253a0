from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ruslo.config.definition import (
    BOOLEAN,
    DOUBLE,
    HIGH,
    INT,
    LIST,
    LONG,
    PASSWORD,
    READ_ONLY,
    SHORT,
    STRING,
    ConfigKey,
    ConfigTable,
    ConfigType,
    InvalidConfig,
    base_name,
    java_double,
    parse_as,
)
from ruslo.config.log_config import TOPIC
from ruslo.config.validators import Items, Validator, at_least


def key(type_: ConfigType, validator: Validator | None = None, name: str = "the.key") -> ConfigKey:
    return ConfigKey(name, type_, None, validator, HIGH, READ_ONLY, "What it does.")


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (INT, " 7\t", 7),
        (INT, "+5", 5),
        (SHORT, "-32768", -32768),
        (LONG, "9223372036854775807", 2**63 - 1),
        (DOUBLE, "1.5f", 1.5),
        (BOOLEAN, " TRUE ", True),
        (LIST, " a , b", ("a", "b")),
        (LIST, "  ", ()),
        (STRING, " x y ", "x y"),
    ],
)
def test_parse(type_: ConfigType, text: str, value: object) -> None:
    assert key(type_).parse(text) == value


@pytest.mark.parametrize(
    ("type_", "text", "reason"),
    [
        (INT, "ten", "not an integer"),
        (INT, "", "not an integer"),
        (INT, "1_0", "not an integer"),
        (INT, "٣", "not an integer"),
        (INT, "2147483648", "does not fit a 32-bit integer"),
        (SHORT, "32768", "does not fit a 16-bit integer"),
        (LONG, "9" * 10_000, "does not fit a 64-bit integer"),
        (DOUBLE, "1,5", "not a number"),
        (BOOLEAN, "yes", "neither true nor false"),
    ],
)
def test_invalid_text_is_rejected_with_reason_and_fix(type_: ConfigType, text: str, reason: str) -> None:
    with pytest.raises(InvalidConfig) as rejection:
        key(type_).parse(text)
    [problem] = rejection.value.problems
    assert problem.key == "the.key"
    assert problem.value == text
    assert reason in problem.reason
    assert problem.fix.startswith("use ")
    assert (
        str(rejection.value) == f"Invalid configuration the.key={text}: {problem.reason}. U{problem.fix[1:]}."
    )


def test_a_value_out_of_range_is_rejected() -> None:
    with pytest.raises(InvalidConfig, match=r"the\.key=0: .* below the minimum 1.*Use a number in \[1"):
        key(INT, at_least(1)).parse("0")


def test_a_password_is_never_shown() -> None:
    secret = key(PASSWORD, Items("x"), name="ssl.key.password")._replace(type=PASSWORD)
    assert secret.sensitive
    assert "hunter2" not in str(secret.invalid("hunter2", "it is short", "use a longer one"))


def test_duplicate_items_are_dropped() -> None:
    assert key(LIST, Items()).parse("a,b,a") == ("a", "b")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_round_trips_through_java_notation(value: float) -> None:
    assert parse_as(DOUBLE, java_double(value)) == value


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_long_round_trips(value: int) -> None:
    shown = key(LONG).format(value)
    assert shown is not None
    assert key(LONG).parse(shown) == value


@given(st.sampled_from([each for each in ConfigType if each is not PASSWORD]), st.text())
@example(LIST, "\xa0")  # Java does not treat this character as blank.
def test_any_text_is_parsed_or_rejected(type_: ConfigType, text: str) -> None:
    try:
        value = parse_as(type_, text)
    except ValueError:
        return
    shown = key(type_).format(value)
    assert shown is not None
    assert parse_as(type_, shown) == value or value != value


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("max.connections", "max.connections"),
        ("listener.name.inner.max.connections", "max.connections"),
        ("listener.name.inner.scram-sha-256.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.name.inner.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.name.inner", "listener.name.inner"),
        ("listener.name.inner.", "listener.name.inner."),
    ],
)
def test_base_name_of_a_listener_property(name: str, base: str) -> None:
    assert base_name(name) == base


def test_a_misspelled_name_gets_a_suggestion() -> None:
    table = ConfigTable("topic", [key(INT, name="retention.ms"), key(INT, name="segment.ms")])
    assert table.nearest("retention.msec") == "retention.ms"
    assert table.nearest("zzz") is None


@pytest.mark.parametrize(
    ("name", "text", "fix"),
    [
        ("retention.ms", "abc", "Use an integer from -1 to 9223372036854775807"),
        ("min.insync.replicas", "two", "Use an integer from 1 to 2147483647"),
        ("compression.gzip.level", "high", "Use an integer from 1 to 9, or -1"),
        ("min.cleanable.dirty.ratio", "half", r"Use a number in \[0,...,1\]"),
    ],
)
def test_the_reported_range_is_the_accepted_one(name: str, text: str, fix: str) -> None:
    with pytest.raises(InvalidConfig, match=fix):
        TOPIC[name].parse(text)
