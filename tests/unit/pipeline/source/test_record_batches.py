from __future__ import annotations

import pyarrow as pa

from ruslo.model.topics import TopicPartition
from ruslo.pipeline.decode.batch_table import scan_batches
from ruslo.pipeline.decode.rows import Rows, decode_rows
from ruslo.pipeline.source import record_batches
from ruslo.pipeline.source.record_batches import RecordBatches, joined, slices
from ruslo.records.builder import build_batch
from ruslo.records.record import Record
from tests.unit.records.examples import NOW


def rows_of(count: int, size: int = 1) -> Rows:
    records = [Record(at, NOW, b"k", bytes(size)) for at in range(count)]
    (rows,) = decode_rows(scan_batches(build_batch(records)))
    return rows


def test_slices_have_a_maximum_of_rows() -> None:
    assert list(slices(rows_of(25_000))) == [(0, 10_000), (10_000, 20_000), (20_000, 25_000)]
    assert list(slices(rows_of(0 + 1))) == [(0, 1)]


def test_slices_have_a_maximum_size() -> None:
    found = list(slices(rows_of(10, 9_000_000)))
    assert found == [(0, 3), (3, 6), (6, 9), (9, 10)]


def test_columns_are_in_the_order_of_the_schema() -> None:
    schema = pa.schema([("offset", pa.int64()), ("topic", pa.string()), ("partition", pa.int32())])
    batch = RecordBatches(schema).build(TopicPartition("orders", 3), rows_of(2), 0, 2, {})
    assert batch.to_pylist() == [
        {"offset": 0, "topic": "orders", "partition": 3},
        {"offset": 1, "topic": "orders", "partition": 3},
    ]


def numbers(start: int, count: int) -> pa.RecordBatch:
    return pa.record_batch({"n": list(range(start, start + count))})


def test_small_batches_are_concatenated_in_order() -> None:
    found = list(joined([numbers(0, 3), numbers(3, 4), numbers(7, 9_999), numbers(10_006, 1)]))
    assert [batch.num_rows for batch in found] == [7, 9_999, 1]
    assert [n for batch in found for n in batch["n"].to_pylist()] == list(range(10_007))


def test_large_batches_are_not_copied() -> None:
    large = pa.record_batch({"n": [bytes(record_batches._LARGE_BYTES)]})
    found = list(joined([numbers(0, 3), large, large]))
    assert [batch.num_rows for batch in found] == [3, 1, 1]
    assert found[1] is large


def test_no_batches() -> None:
    assert list(joined([])) == []
