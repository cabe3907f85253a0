from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruslo.cli.arguments.record_format import ENCODERS, compile_format
from ruslo.cli.produce.record_input import InputRecord, json_record
from ruslo.client.librdkafka.consumer import ConsumedRecord
from ruslo.client.views.record_json import json_line

RECORD = ConsumedRecord("t", 3, 42, 1_700_000_000_000, b"key", b"value", (("a", b"1"), ("b", None)))
NULLS = ConsumedRecord("t", 0, 0, -1, None, None, ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%s\\n", b"value\n"),
        ("%t[%p]@%o %k=%s", b"t[3]@42 key=value"),
        ("%T", b"1700000000000"),
        ("%S %K", b"5 3"),
        ("%R%s", b"\x00\x00\x00\x05value"),
        ("%h", b"a=1,b="),
        ("100%%\\t\\x00\\\\", b"100%\t\x00\\"),
        ("", b""),
    ],
)
def test_formats(text: str, expected: bytes) -> None:
    assert compile_format(text)(RECORD) == expected


def test_nulls() -> None:
    assert compile_format("%k|%s|%S|%K|%R")(NULLS) == b"||-1|-1|\xff\xff\xff\xff"
    assert compile_format("%k|%s", null=b"NULL")(NULLS) == b"NULL|NULL"


@pytest.mark.parametrize(
    ("encoding", "expected"), [("raw", b"value"), ("hex", b"76616c7565"), ("base64", b"dmFsdWU=")]
)
def test_encodings(encoding: str, expected: bytes) -> None:
    assert compile_format("%s", encode=ENCODERS[encoding])(RECORD) == expected


@pytest.mark.parametrize("text", ["%q", "%", "50%", "\\q", "\\x1", "end\\"])
def test_mistakes(text: str) -> None:
    with pytest.raises(ValueError, match=r"unknown|at the end is not"):
        compile_format(text)


def test_json_contains_text_or_base64() -> None:
    line = json_line(RECORD._replace(value=b"\xff\x00"))
    assert line.endswith(b"\n")
    assert json.loads(line) == {
        "topic": "t",
        "partition": 3,
        "offset": 42,
        "timestamp": 1_700_000_000_000,
        "key": "key",
        "value_base64": "/wA=",
        "headers": [{"name": "a", "value": "1"}, {"name": "b", "value": None}],
    }


@given(
    key=st.none() | st.binary(max_size=20),
    value=st.none() | st.binary(max_size=40),
    headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=10)), max_size=3),
)
def test_produce_reads_the_output_of_consume(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    line = json_line(ConsumedRecord("t", 1, 7, 99, key, value, tuple(headers)))
    assert line.count(b"\n") == 1
    assert json_record(json.loads(line)) == InputRecord(key, value, headers, 1, 99)
