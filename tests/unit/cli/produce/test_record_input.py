from __future__ import annotations

import io
import os

import pytest

from ruslo.cli.produce.record_input import InputRecord, delimited_records, json_records, split_stream


def split(data: bytes, delimiter: bytes = b"\n") -> list[bytes]:
    return list(split_stream(io.BytesIO(data), delimiter))


def test_split() -> None:
    assert split(b"a\nb\n") == [b"a", b"b"]
    assert split(b"a\n\nb") == [b"a", b"", b"b"]
    assert split(b"") == []
    assert split(b"\n") == [b""]
    assert split(b"a--b--", b"--") == [b"a", b"b"]


def test_split_across_reads() -> None:
    big = b"x" * 600_000
    assert split(big + b"--" + big + b"--y", b"--") == [big, big, b"y"]


def test_a_piece_is_yielded_before_the_stream_ends() -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as stream, os.fdopen(write_end, "wb", buffering=0) as writer:
        pieces = split_stream(stream, b"\n")
        writer.write(b"one\ntw")
        assert next(pieces) == b"one"
        writer.write(b"o\n")
        assert next(pieces) == b"two"


def test_keys_and_nulls() -> None:
    stream = io.BytesIO(b"a:1:2\nplain\n:empty key\nk:\nk:NULL\nNULL\n")
    assert list(delimited_records(stream, b"\n", b":", b"NULL")) == [
        InputRecord(b"a", b"1:2"),
        InputRecord(None, b"plain"),
        InputRecord(b"", b"empty key"),
        InputRecord(b"k", b""),
        InputRecord(b"k", None),
        InputRecord(None, None),
    ]


def test_without_a_key_delimiter_the_line_is_the_value() -> None:
    assert list(delimited_records(io.BytesIO(b"a:1"), b"\n", None, None)) == [InputRecord(None, b"a:1")]


def test_json_values() -> None:
    stream = io.BytesIO(b'{"value":"text"}\n\n{"value":{"a":[1,2]},"key":7}\n{"value":true}\n{}\n')
    assert [(r.key, r.value) for r in json_records(stream)] == [
        (None, b"text"),
        (b"7", b'{"a":[1,2]}'),
        (None, b"true"),
        (None, None),
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("nonsense", "line 1: Expecting value"),
        ("[1]", "expected an object"),
        ('{"values":1}', "unknown field 'values'"),
        ('{"value_base64":"*"}', "value_base64 is not base64"),
        ('{"partition":"0"}', "partition must be an integer"),
        ('{"partition":-1}', "partition must be an integer"),
        ('{"timestamp":true}', "timestamp must be an integer"),
        ('{"timestamp":9223372036854775808}', "timestamp must be an integer from 0 to"),
        ('{"value":' + "[" * 100_000, "nested too deeply"),
        ('{"headers":["a"]}', "headers must be"),
        ('{"headers":3}', "headers must be"),
    ],
)
def test_json_mistakes(line: str, problem: str) -> None:
    with pytest.raises(ValueError, match=r"^line 1: ") as caught:
        list(json_records(io.BytesIO(line.encode())))
    assert problem in str(caught.value)


def test_a_record_without_a_timestamp() -> None:
    (record,) = json_records(io.BytesIO(b'{"value":"v","timestamp":-1}'))
    assert record.timestamp_ms is None


def test_invalid_utf8_is_a_mistake() -> None:
    with pytest.raises(ValueError, match=r"^line 2: "):
        list(json_records(io.BytesIO(b'{"value":"ok"}\n\xff\xfe\n')))
