"""``.txnindex``: the aborted transactions whose markers lie in a segment, in marker order, 34 bytes each."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from ruslo.model.errors import CorruptLogError

ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the marker."""
    last_stable_offset: int
    """Where the last stable offset stood once the marker was written."""

    def to_bytes(self) -> bytes:
        return ENTRY.pack(_VERSION, *self)


def parse(data: bytes, path: str, from_offset: int = 0) -> Iterator[AbortedTransaction]:
    """The entries with a marker at or past an offset; raises CorruptLogError on anything that is no index."""
    if len(data) % ENTRY.size:
        raise CorruptLogError(f"{path} has {len(data)} bytes, not a multiple of {ENTRY.size}")

    def marker_offset(at: int) -> int:
        return int(ENTRY.unpack_from(data, at * ENTRY.size)[3])

    count = len(data) // ENTRY.size
    start = bisect_left(range(count), from_offset, key=marker_offset)
    for entry in ENTRY.iter_unpack(memoryview(data)[start * ENTRY.size :]):
        version, producer_id, first_offset, last_offset, last_stable_offset = entry
        if version != _VERSION:
            raise CorruptLogError(f"{path} has an entry of version {version}, only {_VERSION} is known")
        yield AbortedTransaction(producer_id, first_offset, last_offset, last_stable_offset)
