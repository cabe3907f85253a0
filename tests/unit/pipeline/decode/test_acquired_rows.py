from __future__ import annotations

from ruslo.pipeline.decode.acquired_rows import acquired_rows
from ruslo.pipeline.decode.batch_table import scan_batches
from ruslo.pipeline.decode.columns import delivery_count_column, value_column
from ruslo.pipeline.decode.rows import Rows, decode_rows
from ruslo.records.builder import build_batch
from ruslo.records.record import Record


def ten_rows() -> Rows:
    records = [Record(at, 1_000, None, b"v%d" % at, (("h", b"%d" % at),)) for at in range(10)]
    (rows,) = decode_rows(scan_batches(build_batch(records)))
    return rows


def test_only_acquired_rows_are_kept_with_their_delivery_counts() -> None:
    rows = acquired_rows(ten_rows(), [(1, 2, 1), (5, 5, 3), (8, 20, 2)])
    assert rows.offsets.tolist() == [1, 2, 5, 8, 9]
    assert delivery_count_column(rows, 0, len(rows)).to_pylist() == [1, 1, 3, 2, 2]
    assert value_column(rows, 1, 3).to_pylist() == [b"v2", b"v5"]
    assert rows.headers(2) == (("h", b"5"),)


def test_no_row_may_be_acquired() -> None:
    assert len(acquired_rows(ten_rows(), [(20, 30, 1)])) == 0
    assert len(acquired_rows(ten_rows(), [])) == 0
