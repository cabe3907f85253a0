"""Runs: consecutive records of the same length, which are at equal distances.

Measurements and counters are such records. In a run, a slice with a stride compares one byte of all records
at the speed of C, and one ``struct`` reads a field of many records.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from ruslo.model.errors import ProtocolError
from ruslo.records.varint import decode_varint, decode_varlong

_INNER_BYTES = bytes(range(0x80, 0x100))
"""Bytes that cannot end a varint."""
_MIN_RECORDS = 8
"""A shorter run is faster to read record by record."""
_MAX_SKIPPED = 127
_FIRST_COMPARED, _COMPARED_FACTOR = 128, 8
_RECORDS_PER_STRUCT = (128, 64, 32, 16, 8, 4, 2, 1)
"""Records that one struct reads; only a few sizes, because structs are cached."""


class Run(NamedTuple):
    start: int
    stride: int
    records: int
    body_at: int
    """Position after the length of the first record."""
    stamp_end: int
    """Position after the timestamp of the first record; all timestamps of the run have this width."""

    @property
    def end(self) -> int:
        return self.start + self.stride * self.records

    @property
    def stamp_at(self) -> int:
        return self.body_at + 1


class RunPace:
    """Decides when to check for a run: less often while there are none."""

    __slots__ = ("_skipped", "next_check")

    def __init__(self) -> None:
        self.next_check = 0
        """Index of the next record to check; those before it are read one by one."""
        self._skipped = 0

    def note(self, index: int, found: int) -> None:
        """Report how many records from ``index`` are a run."""
        if found >= _MIN_RECORDS:
            self._skipped = 0
            self.next_check = index + found
        else:
            self.next_check = index + found + self._skipped + 1
            self._skipped = min(2 * self._skipped + 1, _MAX_SKIPPED)


def find_run(data: bytes, pos: int, end: int, left: int) -> Run | None:
    """The run at ``pos``, of at most ``left`` records before ``end``; None if it is too short.

    Raises ProtocolError, or IndexError at the end of the data, if ``pos`` is not a record.
    """
    # Nearly every length has one or two bytes, and nearly every timestamp one.
    size, body_at = data[pos], pos + 1
    if size <= 0x7F:
        length = -1 if size & 1 else size >> 1
    else:
        high = data[body_at]
        if high > 0x7F or size & 1:
            length, body_at = decode_varint(data, pos)
        else:
            length = (size & 0x7F | high << 7) >> 1
            body_at += 1
    stride = body_at + length - pos
    if length <= 0 or pos + stride > end:
        raise ProtocolError("a record's length exceeds the data")
    max_records = min(left, (end - pos) // stride)
    # Mostly one byte is enough to see that there is no run.
    if max_records < _MIN_RECORDS or data[pos + (_MIN_RECORDS - 1) * stride] != size:
        return None
    count = _same_first_byte(data, pos, stride, max_records)
    if count < _MIN_RECORDS:
        return None
    stamp_end = body_at + 2
    if data[body_at + 1] > 0x7F:
        _, stamp_end = decode_varlong(data, body_at + 1)
    count = same_bytes(data, range(pos + 1, body_at), stride, count)
    count = same_width(data, range(body_at + 1, stamp_end), stride, count)
    return Run(pos, stride, count, body_at, stamp_end) if count >= _MIN_RECORDS else None


def _same_first_byte(data: bytes, pos: int, stride: int, max_records: int) -> int:
    """How many records start with the same byte as the first; compares more only while they do."""
    same, limit = 1, _FIRST_COMPARED
    first = data[pos : pos + 1]
    while same < max_records:
        compared = min(limit, max_records)
        same += _leading(data[pos + same * stride : pos + compared * stride : stride], first)
        if same < compared:
            break
        limit *= _COMPARED_FACTOR
    return same


def same_bytes(data: bytes, columns: range, stride: int, count: int) -> int:
    """How many of ``count`` records have the same bytes as the first, at these positions of the first."""
    for column in columns:
        found = data[column : column + (count - 1) * stride + 1 : stride]
        count = _leading(found, data[column : column + 1])
    return count


def same_width(data: bytes, columns: range, stride: int, count: int) -> int:
    """How many of ``count`` records have a varint of the same width as the first, at these positions."""
    for column in columns:
        found = data[column : column + (count - 1) * stride + 1 : stride]
        if column < columns[-1]:
            others = found.lstrip(_INNER_BYTES) if found.translate(None, _INNER_BYTES) else b""
            count -= len(others)
        elif not found.isascii():
            count = next(index for index, byte in enumerate(found) if byte > 0x7F)
    return count


def read_field(data: bytes, run: Run, count: int, skipped: int, size: int) -> list[bytes]:
    """Read ``size`` bytes of each of ``count`` records of a run, ``skipped`` bytes after its start."""
    found: list[bytes] = []
    at = run.start
    rest = run.stride - skipped - size
    for times in _RECORDS_PER_STRUCT:
        while count >= times:
            found += _fields(skipped, size, rest, times).unpack_from(data, at)
            at += times * run.stride
            count -= times
    return found


@lru_cache(512)
def _fields(skipped: int, size: int, rest: int, times: int) -> struct.Struct:
    return struct.Struct(f"{skipped}x{size}s{rest}x" * times)


def _leading(column: bytes, byte: bytes) -> int:
    """How many leading bytes of a column are this one."""
    if column == byte * len(column):
        return len(column)
    return len(column) - len(column.lstrip(byte))
