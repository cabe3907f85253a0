"""Selects the rows that a share group has acquired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from ruslo.pipeline.decode.rows import Rows

_BY_ROW = [each.name for each in fields(Rows) if each.name not in ("data", "delivery_counts")]


def acquired_rows(rows: Rows, ranges: Sequence[tuple[int, int, int]]) -> Rows:
    """The rows within sorted, disjoint ranges of first offset, last offset (inclusive) and delivery count."""
    table = np.array(ranges, dtype=np.int64).reshape(-1, 3)
    at = np.searchsorted(table[:, 1], rows.offsets)
    kept = at < len(table)
    at = at[kept]
    kept[kept] = table[at, 0] <= rows.offsets[kept]
    selected = {name: getattr(rows, name)[kept] for name in _BY_ROW}
    counts = table[np.searchsorted(table[:, 1], selected["offsets"]), 2].astype(np.int32)
    return replace(rows, **selected, delivery_counts=counts)
