"""Finds the keys of a batch's records, and which of them are tombstones, without decoding anything else.

Compaction looks at the key of every record there is, so this is a tight loop with a short cut for runs of
records of one shape.
"""

from __future__ import annotations

from typing import NamedTuple

from ruslo.model.errors import ProtocolError
from ruslo.records.runs import Run, RunPace, find_run, read_field, same_bytes, same_width
from ruslo.records.varint import decode_varint

_NULL = 1
"""The variable-length -1."""


class KeyScan(NamedTuple):
    keys: list[bytes | None]
    """One for each record, in order; None for a record without key."""
    tombstones: list[int]
    """Places in ``keys`` of the records whose value is null."""


def scan_keys(data: bytes, count: int, pos: int = 0, end: int | None = None) -> KeyScan:
    """The keys of ``count`` records in ``data`` (unfolded), from ``pos`` to ``end``.

    Raises ProtocolError if lengths do not add up.
    """
    scan = KeyScan([], [])
    keys, tombstones = scan
    append = keys.append
    if end is None:
        end = len(data)
    begin = pos
    pace = RunPace()
    next_look = 0
    try:
        while pos < end:
            at = len(keys)
            if at >= next_look:
                run = find_run(data, pos, end, count - at)
                if run is not None:
                    pos = _scan_run(data, run, scan)
                pace.note(at, len(keys) - at)
                next_look = pace.next_look
                if run is not None:
                    continue
            # Nearly every number here has one or two bytes, so these cases are spelled out.
            length = data[pos]
            if length > 0x7F:
                pos += 1
                high = data[pos]
                length += (high << 7) - 0x80
                if high > 0x7F:
                    length, pos = _long_length(data, pos - 1)
            place = pos + 3
            if data[pos + 2] > 0x7F:
                while data[place] > 0x7F:
                    place += 1
                place += 1
            while data[place] > 0x7F:
                place += 1
            place += 1
            size = data[place]
            if size > 0x7F:
                size, place = decode_varint(data, place)
                size <<= 1
            else:
                place += 1
            if size & 1 or size < 0:
                append(None)
                key_end = place
            else:
                key_end = place + (size >> 1)
                append(data[place:key_end])
            pos += 1 + (length >> 1)
            if data[key_end] == _NULL:
                tombstones.append(at)
            if length & 1 or key_end >= pos:
                raise ProtocolError("a record's fields exceed its length")
    except IndexError:
        raise ProtocolError(f"record {len(keys)} of {count} is cut off by the end of data") from None
    if pos != end or len(keys) != count:
        raise ProtocolError(
            f"{count} records are announced, {len(keys)} in {pos - begin} of {end - begin} bytes found"
        )
    return scan


def _long_length(data: bytes, pos: int) -> tuple[int, int]:
    """A record's length of three bytes and more: its zigzag number, and the place of its last byte."""
    length, behind = decode_varint(data, pos)
    return length << 1 if length >= 0 else 1, behind - 1


def _scan_run(data: bytes, run: Run, scan: KeyScan) -> int:
    """Read the first record of a run, and with it all that have their key in the same place of the same size.

    Returns the position behind them.
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
