from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruslo.console.messages.decoding import FORMATS, indent_json, one_line, show

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_indented_json_is_equivalent(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, separators=(",", ":"))):
        assert json.loads(indent_json(text)) == value


def test_json_keeps_its_literals() -> None:
    text = '{"n":123456789012345678901234567890.10,"e":1e999,"s":"a\\u00e9\\"{[,:]}","x":[],"y":{ }}'
    assert indent_json(text) == (
        '{\n  "n": 123456789012345678901234567890.10,\n  "e": 1e999,\n  "s": "a\\u00e9\\"{[,:]}",\n'
        '  "x": [],\n  "y": {}\n}'
    )


@given(st.binary(max_size=300), st.sampled_from(FORMATS), st.integers(1, 200))
def test_any_bytes_can_be_shown_within_the_limit(data: bytes, expected: str, limit: int) -> None:
    shown = show(data, expected, limit)
    assert shown.size_bytes == len(data)
    assert len(shown.text) <= max(limit, 80)
    line = one_line(data, limit)
    assert len(line.text) <= limit
    assert "\n" not in line.text


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (None, "null"),
        (b"", "empty"),
        (b'{"a": 1}', "json"),
        (b"[1, 2", "text"),
        ("привет".encode(), "text"),
        (b"\x00\x01\x02\xff", "hex"),
        (b"42", "text"),
    ],
)
def test_the_format_is_detected(data: bytes | None, kind: str) -> None:
    assert show(data, "auto", 100).format == kind


def test_data_in_another_format_has_a_note() -> None:
    assert show(b"not json", "json", 100)[-1] == "The data is not valid JSON."
    assert "schema" in (show(b"x", "avro", 100).note or "")


def test_a_hex_dump() -> None:
    assert show(b"Ruslo\x00\xff", "hex", 200).text == f"00000000  {'52 75 73 6c 6f 00 ff':<48} Ruslo··"


def test_large_values_are_truncated_and_deep_json_is_harmless() -> None:
    large = show(b"x" * 1_000_000, "auto", 1000)
    assert (len(large.text), large.is_truncated, large.size_bytes) == (1000, True, 1_000_000)
    deep = b"[" * 50_000
    assert show(deep, "json", 100).note == "The data is not valid JSON."
    assert one_line(b'{"a":\n   1}', 50).text == '{"a": 1}'
