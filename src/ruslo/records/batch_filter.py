"""Removes records from a batch; the records that are kept are copied byte for byte.

Offsets, sequences and flags of the batch stay, so nothing inside a record changes. The exception is a new
delete horizon (KIP-534): it replaces the base timestamp, so every timestamp delta changes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TypeAlias

from ruslo.model.errors import ProtocolError
from ruslo.records.batch import DELETE_HORIZON, LOG_APPEND_TIME, NO_TIMESTAMP, BatchHeader
from ruslo.records.builder import assemble_batch
from ruslo.records.compression import compress
from ruslo.records.runs import Run, RunPace, find_run, read_field, same_bytes
from ruslo.records.varint import decode_varint, decode_varlong, encode_varint

_NO_DELTA = -(1 << 63)
_SPARSE_RATIO = 4
"""If fewer than one in this many records is kept, slicing each is faster than reading all and choosing."""
_LARGE_RECORD_BYTES = 512
"""Records of this size and above are always sliced, because slices do not copy."""
_SAME_TIME_RECORDS_MAX, _SAME_TIME_RECORDS_MIN = 256, 16
"""How many records are compared for the same timestamp at once, and how many must have it to join them."""

Piece: TypeAlias = bytes | memoryview


def filter_batch(
    header: BatchHeader,
    data: bytes,
    keep: bytes,
    *,
    begin: int = 0,
    end: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """The batch with only those records whose byte in ``keep`` is not 0; at least one must be kept.

    ``data`` has its decompressed records from ``begin`` to ``end``. ``delete_horizon_ms`` is for a batch that
    has no delete horizon yet. ``rebuild_batch`` makes a batch without records.
    """
    if end is None:
        end = len(data)
    shift = None if delete_horizon_ms is None else header.base_timestamp - delete_horizon_ms
    try:
        if shift is None:
            pieces, latest = _keep(data, begin, end, keep)
        else:
            pieces, latest = _keep_and_shift(data, begin, end, keep, shift)
    except IndexError:
        raise ProtocolError(
            f"the batch at offset {header.base_offset} ends in the middle of a record"
        ) from None
    changed = header._replace(count=len(keep) - keep.count(0))
    if delete_horizon_ms is not None:
        changed = changed._replace(
            attributes=header.attributes | DELETE_HORIZON, base_timestamp=delete_horizon_ms
        )
    if not header.attributes & LOG_APPEND_TIME:
        changed = changed._replace(max_timestamp=max(changed.base_timestamp + latest, NO_TIMESTAMP))
    if header.codec:
        pieces = [compress(header.codec, b"".join(pieces))]
    return assemble_batch(changed, pieces)


def _keep(data: bytes, pos: int, end: int, keep: bytes) -> tuple[list[Piece], int]:
    """The byte ranges of the kept records, and their largest timestamp delta."""
    pieces: list[Piece] = []
    latest = _NO_DELTA
    begin, at = pos, 0
    previous = 0
    count = len(keep)
    pace = RunPace()
    next_check = 0
    while at < count:
        if at >= next_check:
            run = find_run(data, pos, end, count - at)
            pace.note(at, 0 if run is None else run.records)
            next_check = pace.next_check
            if run is not None:
                if previous:
                    pieces.append(data[begin:pos])
                previous = 0
                latest = max(latest, _keep_run(data, run, keep[at : at + run.records], pieces))
                pos, at = run.end, at + run.records
                continue
        start = pos
        length = data[pos]
        pos += 1
        if length > 0x7F:
            high = data[pos]
            pos += 1
            length += (high << 7) - 0x80
            if high > 0x7F:
                length, pos = decode_varint(data, start)
                length <<= 1
        wanted = keep[at]
        if wanted:
            delta = data[pos + 1]
            delta = (delta >> 1) ^ -(delta & 1) if delta <= 0x7F else decode_varlong(data, pos + 1)[0]
            if delta > latest:
                latest = delta
            if not previous:
                begin = start
        elif previous:
            pieces.append(data[begin:start])
        previous = wanted
        pos += length >> 1
        at += 1
    if previous:
        pieces.append(data[begin:pos])
    _check_end(pos, end)
    return pieces, latest


def _keep_run(data: bytes, run: Run, keep: bytes, pieces: list[Piece]) -> int:
    """Add the kept records of a run to ``pieces``; returns their largest timestamp delta."""
    pieces += _kept_ends(data, run, keep, run.start)
    stamps = set(_kept_fields(data, run, keep, run.stamp_at, run.stamp_end))
    return max((decode_varlong(stamp, 0)[0] for stamp in stamps), default=_NO_DELTA)


def _keep_and_shift(data: bytes, pos: int, end: int, keep: bytes, shift: int) -> tuple[list[Piece], int]:
    """The kept records with ``shift`` added to each timestamp delta, and the largest of these deltas."""
    pieces: list[Piece] = []
    record_starts = _RecordStarts(shift)
    at = 0
    count = len(keep)
    pace = RunPace()
    next_check = 0
    while at < count:
        if at >= next_check:
            run = find_run(data, pos, end, count - at)
            pace.note(at, 0 if run is None else run.records)
            next_check = pace.next_check
            if run is not None:
                _shift_run(data, run, keep[at : at + run.records], record_starts, pieces)
                pos, at = run.end, at + run.records
                continue
        length = data[pos]
        pos += 1
        if length > 0x7F:
            high = data[pos]
            pos += 1
            length += (high << 7) - 0x80
            if high > 0x7F:
                length, pos = decode_varint(data, pos - 2)
                length <<= 1
        stop = pos + (length >> 1)
        if keep[at]:
            rest = pos + 2
            if data[pos + 1] > 0x7F:
                rest = decode_varlong(data, pos + 1)[1]
            pieces.append(record_starts[stop - rest, data[pos:rest]])
            pieces.append(data[rest:stop])
        pos = stop
        at += 1
    _check_end(pos, end)
    return pieces, record_starts.latest


def _check_end(pos: int, end: int) -> None:
    """Check that the records end where the batch ends: other data may follow."""
    if pos != end:
        raise ProtocolError(f"the records of a batch end {pos - end} bytes after its end")


def _shift_run(data: bytes, run: Run, keep: bytes, record_starts: _RecordStarts, pieces: list[Piece]) -> None:
    rests = _kept_ends(data, run, keep, run.stamp_end)
    if not rests:
        return
    stride = run.stride
    rest_size = run.start + stride - run.stamp_end
    at = done = 0
    while at < run.records:
        # Records with the same timestamp have the same first bytes, so they can be joined at once.
        head_at, head_end = run.body_at + at * stride, run.stamp_end + at * stride
        compared = min(run.records - at, _SAME_TIME_RECORDS_MAX)
        same = same_bytes(data, range(head_at, head_end), stride, compared)
        if same < min(compared, _SAME_TIME_RECORDS_MIN):
            break
        kept = same - keep.count(0, at, at + same)
        if kept:
            record_start = record_starts[rest_size, data[head_at:head_end]]
            pieces += (record_start, record_start.join(rests[done : done + kept]))
        at += same
        done += kept
    else:
        return
    heads = _kept_fields(data, run, keep, run.body_at, run.stamp_end)[done:]
    new = {head: record_starts[rest_size, head] for head in set(heads)}
    pieces += itertools.chain.from_iterable(zip(map(new.__getitem__, heads), rests[done:], strict=True))


def _kept_ends(data: bytes, run: Run, keep: bytes, begin: int) -> Sequence[Piece]:
    """Each kept record of a run from a position, given for the first record, to its end."""
    stride = run.stride
    end = run.start + stride
    if stride < _LARGE_RECORD_BYTES and _SPARSE_RATIO * (len(keep) - keep.count(0)) > len(keep):
        return _kept_fields(data, run, keep, begin, end)
    view = memoryview(data)
    indexes = itertools.compress(range(run.records), keep)
    return [view[begin + index * stride : end + index * stride] for index in indexes]


def _kept_fields(data: bytes, run: Run, keep: bytes, begin: int, end: int) -> list[bytes]:
    fields = read_field(data, run, run.records, begin - run.start, end - begin)
    return list(itertools.compress(fields, keep))


class _RecordStarts(dict[tuple[int, bytes], bytes]):
    """Encoded length, attributes and timestamp of shifted records; a batch has only a few distinct ones.

    The key is the size of the rest of the record, and the original attributes and timestamp.
    """

    def __init__(self, shift: int) -> None:
        super().__init__()
        self._shift = shift
        self._heads: dict[bytes, bytes] = {}
        """Original attributes and timestamp → shifted ones."""
        self.latest = _NO_DELTA
        """The largest timestamp delta so far, shifted."""

    def __missing__(self, shape: tuple[int, bytes]) -> bytes:
        rest_size, head = shape
        shifted = self._heads.get(head)
        if shifted is None:
            delta = decode_varlong(head, 1)[0] + self._shift
            self.latest = max(self.latest, delta)
            shifted = self._heads[head] = head[:1] + encode_varint(delta)
        record_start = self[shape] = encode_varint(len(shifted) + rest_size) + shifted
        return record_start
