"""Runs of records of one length, which lie at equal distances.

Measurements and counters look like that. For such a run, columns of bytes taken with a stride prove at the
speed of C what a loop would find out record by record, and one ``struct`` reads a field of all of them.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from ruslo.model.errors import ProtocolError
from ruslo.records.varint import decode_varint, decode_varlong

_INNER_BYTES = bytes(range(0x80, 0x100))
"""What cannot be the last byte of a variable-length number; ASCII can."""
_WORTH_IT = 8
"""A shorter run costs more to prove than to read record by record."""
_MOST_PATIENCE = 127
_FIRST_LOOK, _FURTHER_LOOK = 128, 8
_AT_ONCE = (128, 64, 32, 16, 8, 4, 2, 1)
"""Records that one struct reads; few sizes, so that they can be kept."""


class Run(NamedTuple):
    start: int
    stride: int
    records: int
    body_at: int
    """Of the first record: where its length ends."""
    stamp_end: int
    """Of the first record: where its timestamp ends; all of the run have as many bytes for it."""

    @property
    def end(self) -> int:
        return self.start + self.stride * self.records

    @property
    def stamp_at(self) -> int:
        return self.body_at + 1


class RunPace:
    """When to look for a run: not at every record where there are none."""

    __slots__ = ("_patience", "next_look")

    def __init__(self) -> None:
        self.next_look = 0
        """The place of a record; those before it are read one by one."""
        self._patience = 0

    def note(self, place: int, found: int) -> None:
        """How many records from ``place`` on the last look has found to be of one shape."""
        if found >= _WORTH_IT:
            self._patience = 0
            self.next_look = place + found
        else:
            self.next_look = place + found + self._patience + 1
            self._patience = min(2 * self._patience + 1, _MOST_PATIENCE)


def find_run(data: bytes, pos: int, end: int, left: int) -> Run | None:
    """The run that begins at ``pos``, among the ``left`` records before ``end``; None if it is too short.

    Raises ProtocolError, or IndexError at the end of the data, if there is no record.
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
    most = min(left, (end - pos) // stride)
    # Where there is no run, one byte mostly tells.
    if most < _WORTH_IT or data[pos + (_WORTH_IT - 1) * stride] != size:
        return None
    count = _same_first_byte(data, pos, stride, most)
    if count < _WORTH_IT:
        return None
    stamp_end = body_at + 2
    if data[body_at + 1] > 0x7F:
        _, stamp_end = decode_varlong(data, body_at + 1)
    count = same_bytes(data, range(pos + 1, body_at), stride, count)
    count = same_width(data, range(body_at + 1, stamp_end), stride, count)
    return Run(pos, stride, count, body_at, stamp_end) if count >= _WORTH_IT else None


def _same_first_byte(data: bytes, pos: int, stride: int, most: int) -> int:
    """How many records begin as the first does, looking further only as long as they do."""
    sure, look = 1, _FIRST_LOOK
    first = data[pos : pos + 1]
    while sure < most:
        looked = min(look, most)
        same = _leading(data[pos + sure * stride : pos + looked * stride : stride], first)
        sure += same
        if sure < looked:
            break
        look *= _FURTHER_LOOK
    return sure


def same_bytes(data: bytes, columns: range, stride: int, count: int) -> int:
    """How many of ``count`` records have the same bytes as the first in these places of the first."""
    for column in columns:
        found = data[column : column + (count - 1) * stride + 1 : stride]
        count = _leading(found, data[column : column + 1])
    return count


def same_width(data: bytes, columns: range, stride: int, count: int) -> int:
    """How many of ``count`` records have a variable-length number of as many bytes as the first there."""
    for column in columns:
        found = data[column : column + (count - 1) * stride + 1 : stride]
        if column < columns[-1]:
            others = found.lstrip(_INNER_BYTES) if found.translate(None, _INNER_BYTES) else b""
            count -= len(others)
        elif not found.isascii():
            count = next(place for place, byte in enumerate(found) if byte > 0x7F)
    return count


def read_field(data: bytes, run: Run, count: int, skipped: int, size: int) -> list[bytes]:
    """Of the first ``count`` records of a run: ``size`` bytes, ``skipped`` bytes from where each begins."""
    found: list[bytes] = []
    at = run.start
    rest = run.stride - skipped - size
    for times in _AT_ONCE:
        while count >= times:
            found += _fields(skipped, size, rest, times).unpack_from(data, at)
            at += times * run.stride
            count -= times
    return found


@lru_cache(512)
def _fields(skipped: int, size: int, rest: int, times: int) -> struct.Struct:
    return struct.Struct(f"{skipped}x{size}s{rest}x" * times)


def _leading(column: bytes, byte: bytes) -> int:
    """How many bytes at the beginning of a column are this one."""
    if column == byte * len(column):
        return len(column)
    return len(column) - len(column.lstrip(byte))
