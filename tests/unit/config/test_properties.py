from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruslo.config.properties import decode_properties, format_properties, parse_properties
from ruslo.model.errors import ConfigError

# Java strings, without lone surrogates.
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=b\nc:d\ne f\ng   =   h", {"a": "b", "c": "d", "e": "f", "g": "h"}),
        ("# x\n! y\n   # z\n\n key = value \n", {"key": "value "}),
        ("a=1\\\n    2\\\r\n  #3\rb=2", {"a": "12#3", "b": "2"}),
        ("a=b\\\\\nc=d\\\\\\\n e", {"a": "b\\", "c": "d\\e"}),
        ("k\\ x\\=y\\:z=v", {"k x=y:z": "v"}),
        ("u=\\u00e9\\uD83D\\uDE00\\t\\q", {"u": "é😀\tq"}),
        ("only\n=nokey", {"only": "", "": "nokey"}),
        ("a==b\nb = =c", {"a": "=b", "b": "=c"}),
        ("dup=1\ndup=2", {"dup": "2"}),
        ("end=x\\", {"end": "x"}),
        ("dirs=C:\\\\logs", {"dirs": "C:\\logs"}),
        ("", {}),
    ],
)
def test_reading(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


@pytest.mark.parametrize(
    ("text", "line"), [("a=\\u12", 1), ("ok=1\n\n# c\na=\\\n  \\uxyzt\n", 4), ("a=1\nb\\u123g=2", 2)]
)
def test_an_invalid_escape_is_rejected_with_its_line(text: str, line: int) -> None:
    with pytest.raises(ConfigError, match=rf"in line {line} is not a character\. Write "):
        parse_properties(text)


@given(st.dictionaries(TEXT, TEXT))
def test_round_trip_of_property_files(properties: dict[str, str]) -> None:
    written = format_properties(properties)
    assert written.isascii()
    assert parse_properties(written) == properties


@given(TEXT)
def test_any_property_file_is_parsed_or_rejected(text: str) -> None:
    try:
        properties = parse_properties(text)
    except ConfigError:
        return
    assert parse_properties(format_properties(properties)) == properties


def test_files_may_be_utf8_or_latin1() -> None:
    assert decode_properties("a=é".encode()) == "a=é"
    assert decode_properties("a=é".encode("latin-1")) == "a=é"
    assert decode_properties(b"\xef\xbb\xbfa=b") == "a=b"
