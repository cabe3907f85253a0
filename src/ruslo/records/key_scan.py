"""Finds the keys of the records in a batch, and the tombstones, without decoding anything else.

Compaction reads the key of every record, so this is a tight loop with a shortcut for runs of records of one
layout.
"""

from __future__ import annotations

from typing import NamedTuple

from ruslo.model.errors import ProtocolError
from ruslo.records.runs import Run, RunPace, find_run, read_field, same_bytes, same_width
from ruslo.records.varint import decode_varint

_NULL = 1
"""The varint of -1."""


class KeyScan(NamedTuple):
    keys: list[bytes | None]
    """The key of each record; None for a record without a key."""
    tombstones: list[int]
    """Indexes in ``keys`` of the records whose value is null."""


def scan_keys(data: bytes, count: int, pos: int = 0, end: int | None = None) -> KeyScan:
    """The keys of ``count`` decompressed records in ``data[pos:end]``; raises ProtocolError if malformed."""
    scan = KeyScan([], [])
    keys, tombstones = scan
    append = keys.append
    if end is None:
        end = len(data)
    begin = pos
    pace = RunPace()
    next_check = 0
    try:
        while pos < end:
            at = len(keys)
            if at >= next_check:
                run = find_run(data, pos, end, count - at)
                if run is not None:
                    pos = _scan_run(data, run, scan)
                pace.note(at, len(keys) - at)
                next_check = pace.next_check
                if run is not None:
                    continue
            # Nearly every number has one or two bytes, so these cases are inlined.
            length = data[pos]
            if length > 0x7F:
                pos += 1
                high = data[pos]
                length += (high << 7) - 0x80
                if high > 0x7F:
                    length, pos = _long_length(data, pos - 1)
            field_at = pos + 3
            if data[pos + 2] > 0x7F:
                while data[field_at] > 0x7F:
                    field_at += 1
                field_at += 1
            while data[field_at] > 0x7F:
                field_at += 1
            field_at += 1
            size = data[field_at]
            if size > 0x7F:
                size, field_at = decode_varint(data, field_at)
                size <<= 1
            else:
                field_at += 1
            if size & 1 or size < 0:
                append(None)
                key_end = field_at
            else:
                key_end = field_at + (size >> 1)
                append(data[field_at:key_end])
            pos += 1 + (length >> 1)
            if data[key_end] == _NULL:
                tombstones.append(at)
            if length & 1 or key_end >= pos:
                raise ProtocolError("a record's fields exceed its length")
    except IndexError:
        raise ProtocolError(f"the data ends in the middle of record {len(keys)} of {count}") from None
    if pos != end or len(keys) != count:
        raise ProtocolError(
            f"expected {count} records, found {len(keys)} in {pos - begin} of {end - begin} bytes"
        )
    return scan


def _long_length(data: bytes, pos: int) -> tuple[int, int]:
    """A record length of three or more bytes: its zigzag value, and the position of its last byte."""
    length, after = decode_varint(data, pos)
    return length << 1 if length >= 0 else 1, after - 1


def _scan_run(data: bytes, run: Run, scan: KeyScan) -> int:
    """Read the first record of a run and all that have a key of the same size at the same position.

    Returns the position after them.
    """
    start, stride = run.start, run.stride
    key_size_at = run.stamp_end
    while data[key_size_at] > 0x7F:
        key_size_at += 1
    key_size_at += 1
    key_size, key_at = data[key_size_at], key_size_at + 1
    if key_size > 0x7F:
        key_size, key_at = decode_varint(data, key_size_at)
    else:
        key_size = -1 if key_size & 1 else key_size >> 1
    key_end = key_at + max(key_size, 0)
    if key_end >= start + stride:
        raise ProtocolError("a record's fields exceed its length")
    count = same_bytes(data, range(key_size_at, key_at), stride, run.records)
    count = same_bytes(data, range(key_end, key_end + 1), stride, count)
    count = same_width(data, range(run.stamp_end, key_size_at), stride, count)
    keys, tombstones = scan
    if data[key_end] == _NULL:
        tombstones.extend(range(len(keys), len(keys) + count))
    if key_size < 0:
        keys.extend([None] * count)
    else:
        keys.extend(read_field(data, run, count, key_at - start, key_size))
    return start + stride * count
