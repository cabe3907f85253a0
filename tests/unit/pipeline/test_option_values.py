from __future__ import annotations

import pytest

from ruslo.model.errors import ConfigError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.option_values import OptionValues, parse_by_partition


def test_names_are_case_insensitive() -> None:
    values = OptionValues({"StartingOffsets": " earliest "})
    assert "startingoffsets" in values
    assert values.text("startingOffsets") == "earliest"


def test_unknown_names_are_rejected_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"no option 'startingoffset'\. Did you mean 'startingOffsets'"):
        OptionValues({"startingOffset": "x"}).refuse_unknown(["startingOffsets", "subscribe"], "it")
    with pytest.raises(ConfigError, match="Use one of startingOffsets, subscribe"):
        OptionValues({"zzz": "x"}).refuse_unknown(["startingOffsets", "subscribe"], "it")
    OptionValues({"kafka.anything": "x"}).refuse_unknown([], "it")


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("64k", 65536), ("2 MB", 2 << 20), ("1g", 1 << 30), ("7b", 7)]
)
def test_sizes(text: str, size: int) -> None:
    assert OptionValues({"limit": text}).size_bytes("limit", None) == size


@pytest.mark.parametrize("text", ["0", "-1", "1.5m", "much", ""])
def test_invalid_sizes(text: str) -> None:
    with pytest.raises(ConfigError, match="limit="):
        OptionValues({"limit": text}).size_bytes("limit", None)


@pytest.mark.parametrize(
    ("text", "length_ms"), [("500ms", 500), ("30s", 30_000), ("15m", 900_000), ("1h", 3_600_000)]
)
def test_durations(text: str, length_ms: int) -> None:
    assert OptionValues({"delay": text}).duration_ms("delay", 1) == length_ms


def test_durations_need_a_unit() -> None:
    with pytest.raises(ConfigError, match="with a unit"):
        OptionValues({"delay": "30"}).duration_ms("delay", 1)


def test_flags_choices_and_numbers() -> None:
    values = OptionValues({"on": "TRUE", "kind": "b", "n": "5", "bad": "maybe"})
    assert values.flag("on", False)
    assert not values.flag("absent", False)
    assert values.choice("kind", ("A", "B"), "A") == "B"
    assert values.number("n", 0) == 5
    assert values.optional_number("absent") is None
    with pytest.raises(ConfigError, match="use true or false"):
        values.flag("bad", False)
    with pytest.raises(ConfigError, match="whole number"):
        values.number("bad", 0)
    with pytest.raises(ConfigError, match="6 or more"):
        values.number("n", 0, least=6)


def test_limits_by_topic() -> None:
    values = OptionValues({"limits": '{"orders": 10, "clicks": "64k"}', "bad": "[1]"})
    assert values.by_topic("limits") == {"orders": 10, "clicks": 65536}
    with pytest.raises(ConfigError, match="write it as JSON, such as"):
        values.by_topic("bad")


def test_numbers_by_partition() -> None:
    assert parse_by_partition("o", '{"t": {"0": 5, "1": -2}}') == {
        TopicPartition("t", 0): 5,
        TopicPartition("t", 1): -2,
    }
    for bad in ("{", "[]", '{"t": 5}', '{"t": {"x": 5}}', '{"t": {"0": "a"}}'):
        with pytest.raises(ConfigError, match="write it as JSON, such as"):
            parse_by_partition("o", bad)


def test_client_properties_have_a_prefix() -> None:
    assert OptionValues({"kafka.Group.Id": "g", "other": "x"}).client_properties() == {"group.id": "g"}
