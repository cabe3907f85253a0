"""Finds the keys of a batch's records, and which of them are tombstones, without decoding anything else.

Compaction looks at the key of every record there is, so this is a tight loop with a short cut: records of one
shape (same lengths, as measurements and counters have them) lie at equal distances, and then columns of bytes
taken with a stride prove for the whole run, at the speed of C, what the loop would find record by record.
"""

from __future__ import annotations

from typing import NamedTuple

from ruslo.model.errors import ProtocolError
from ruslo.records.varint import decode_varint, decode_varlong

_NULL = 1
"""The variable-length -1."""
_LAST_BYTES = bytes(range(0x80))
_INNER_BYTES = bytes(range(0x80, 0x100))
"""Of variable-length numbers: what may be the last byte of one, and what cannot be."""
_WORTH_A_RUN = 8
_MOST_PATIENCE = 127
"""Records read one by one after runs that were too short to be worth their proof."""


class KeyScan(NamedTuple):
    keys: list[bytes | None]
    """One for each record, in order; None for a record without key."""
    tombstones: list[int]
    """Places in ``keys`` of the records whose value is null."""


def scan_keys(data: bytes, count: int) -> KeyScan:
    """The keys of ``count`` records in ``data`` (unfolded, without the batch's header).

    Raises ProtocolError if lengths do not add up.
    """
    scan = KeyScan([], [])
    keys, tombstones = scan
    append = keys.append
    pos, end = 0, len(data)
    next_try = patience = 0
    try:
        while pos < end:
            at = len(keys)
            if at >= next_try:
                pos = _scan_run(data, pos, count - at, scan)
                if len(keys) - at >= _WORTH_A_RUN:
                    patience = 0
                else:
                    next_try = len(keys) + patience
                    patience = min(2 * patience + 1, _MOST_PATIENCE)
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
        raise ProtocolError(f"{count} records are announced, {len(keys)} in {pos} of {end} bytes found")
    return scan


def _long_length(data: bytes, pos: int) -> tuple[int, int]:
    """A record's length of three bytes and more: its zigzag number, and the place of its last byte."""
    length, behind = decode_varint(data, pos)
    return length << 1 if length >= 0 else 1, behind - 1


def _scan_run(data: bytes, pos: int, left: int, scan: KeyScan) -> int:
    """Read one record, and with it all that follow in the same shape; returns the position behind them."""
    length, body = decode_varint(data, pos)
    stop = body + length
    if length < 0 or stop > len(data):
        raise ProtocolError("a record's length exceeds the data")
    _, offset_at = decode_varlong(data, body + 1)
    _, key_size_at = decode_varint(data, offset_at)
    key_size, key_at = decode_varint(data, key_size_at)
    key_end = key_at + max(key_size, 0)
    if key_end >= stop:
        raise ProtocolError("a record's fields exceed its length")
    keys, tombstones = scan
    at = len(keys)
    is_tombstone = data[key_end] == _NULL
    stride = stop - pos
    run = min(left, (len(data) - pos) // stride)
    if run >= _WORTH_A_RUN and offset_at == body + 2:
        # Every record of the run has the same bytes for its lengths (so that the next one begins a stride
        # further), one byte for its timestamp, and as many bytes for its offset as the first.
        for column in (*range(pos, body), *range(key_size_at, key_at), key_end):
            run = _leading(data[column : pos + run * stride : stride], data[column : column + 1])
        run = _leading(data[body + 1 : pos + run * stride : stride], _LAST_BYTES)
        for column in range(offset_at, key_size_at - 1):
            run = _leading(data[column : pos + run * stride : stride], _INNER_BYTES)
        run = _leading(data[key_size_at - 1 : pos + run * stride : stride], _LAST_BYTES)
    else:
        run = 1
    if key_size < 0:
        keys.extend([None] * run)
    else:
        width = key_end - key_at
        keys.extend([data[start : start + width] for start in range(key_at, pos + run * stride, stride)])
    if is_tombstone:
        tombstones.extend(range(at, at + run))
    return pos + run * stride


def _leading(column: bytes, allowed: bytes) -> int:
    """How many bytes at the beginning of a column are among the allowed ones."""
    return len(column) - len(column.lstrip(allowed))
