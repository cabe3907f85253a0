from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from ruslo.pipeline.decode import columns
from ruslo.pipeline.decode.batch_table import scan_batches
from ruslo.pipeline.decode.rows import Rows, decode_rows
from ruslo.records.builder import build_batch
from ruslo.records.record import Record
from tests.unit.records.examples import NOW, RECORDS


@pytest.fixture
def rows() -> Rows:
    (found,) = decode_rows(scan_batches(build_batch(RECORDS, base_offset=100)))
    return found


def test_null_and_empty_bytes_differ(rows: Rows) -> None:
    assert columns.key_column(rows, 0, 4).to_pylist() == [b"key", None, b"gone", b""]
    assert columns.value_column(rows, 0, 4).to_pylist() == [b"value", b"no key", None, b""]


def test_a_part_of_the_rows(rows: Rows) -> None:
    assert columns.value_column(rows, 1, 3).to_pylist() == [b"no key", None]
    assert columns.offset_column(rows, 2, 4).to_pylist() == [102, 103]
    assert columns.key_column(rows, 2, 2).to_pylist() == []


def test_columns_are_valid_arrow(rows: Rows) -> None:
    for build in (columns.key_column, columns.value_column, columns.headers_column, columns.timestamp_column):
        build(rows, 0, 4).validate(full=True)


def test_times_are_utc(rows: Rows) -> None:
    column = columns.timestamp_column(rows, 1, 2)
    assert column.type == pa.timestamp("us", tz="UTC")
    moment = datetime.datetime.fromtimestamp((NOW + 250) / 1000, datetime.UTC)
    assert column.to_pylist() == [moment]


def test_times_out_of_range_are_clipped() -> None:
    records = [Record(0, 2**61, None, b""), Record(1, -1, None, b"")]
    (rows,) = decode_rows(scan_batches(build_batch(records)))
    latest, before = columns.timestamp_column(rows, 0, 2).cast(pa.int64()).to_pylist()
    assert latest == ((1 << 63) // 1000 - 1) * 1000
    assert before == -1000


def test_headers(rows: Rows) -> None:
    assert columns.headers_column(rows, 0, 4).to_pylist() == [
        None,
        [{"key": "trace", "value": b"\x01\x02"}, {"key": "null", "value": None}],
        None,
        [{"key": "", "value": b""}],
    ]
    assert columns.headers_column(rows, 2, 3).to_pylist() == [None]


def test_header_keys_need_not_be_utf8() -> None:
    record = Record(0, NOW, None, b"", (("\udcff\udcfe", b"1"), ("plain", b"2")))
    (rows,) = decode_rows(scan_batches(build_batch([record])))
    assert columns.headers_column(rows, 0, 1).to_pylist() == [
        [{"key": "��", "value": b"1"}, {"key": "plain", "value": b"2"}]
    ]
    assert rows.headers(0) == record.headers
