"""Takes records out of a batch: what stays is copied as it lies, byte for byte.

Offsets, sequences and flags of the batch stay, so nothing inside a record changes. The one exception is a new
delete horizon (KIP-534): it takes the place of the base timestamp, from which every timestamp is counted.
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

_NONE_YET = -(1 << 63)
_FEW = 4
"""Where fewer than one in so many stay, it is cheaper to fetch each than to fetch all and choose."""
_LARGE_BYTES = 512
"""Of records from this size on it is cheaper anyway, because they are not copied."""
_MOMENT_LOOK, _WORTH_JOINING = 256, 16
"""How far to look for records of one time, and how many are worth it; to look again and again costs too."""

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
    """The batch with only those records whose byte in ``keep`` is not 0.

    Its records lie in ``data`` (unfolded) from ``begin`` to ``end``. At least one must stay (for none, see
    ``rebuild_batch``). ``delete_horizon_ms`` is set on a batch that has none yet.
    """
    if end is None:
        end = len(data)
    shift = None if delete_horizon_ms is None else header.base_timestamp - delete_horizon_ms
    try:
        if shift is None:
            pieces, latest = _cut(data, begin, end, keep)
        else:
            pieces, latest = _cut_and_shift(data, begin, end, keep, shift)
    except IndexError:
        raise ProtocolError(
            f"the batch at offset {header.base_offset} is cut off by the end of data"
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


def _cut(data: bytes, pos: int, end: int, keep: bytes) -> tuple[list[Piece], int]:
    """The kept stretches, and the largest timestamp delta in them."""
    pieces: list[Piece] = []
    latest = _NONE_YET
    begin, at = pos, 0
    previous = 0
    count = len(keep)
    pace = RunPace()
    next_look = 0
    while at < count:
        if at >= next_look:
            run = find_run(data, pos, end, count - at)
            pace.note(at, 0 if run is None else run.records)
            next_look = pace.next_look
            if run is not None:
                if previous:
                    pieces.append(data[begin:pos])
                previous = 0
                latest = max(latest, _cut_run(data, run, keep[at : at + run.records], pieces))
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


def _cut_run(data: bytes, run: Run, keep: bytes, pieces: list[Piece]) -> int:
    """Add the kept records of a run to ``pieces``; returns the largest timestamp delta in them."""
    pieces += _kept_ends(data, run, keep, run.start)
    stamps = set(_kept_fields(data, run, keep, run.stamp_at, run.stamp_end))
    return max((decode_varlong(stamp, 0)[0] for stamp in stamps), default=_NONE_YET)


def _cut_and_shift(data: bytes, pos: int, end: int, keep: bytes, shift: int) -> tuple[list[Piece], int]:
    """The kept records with ``shift`` added to each timestamp delta, and the largest delta then."""
    pieces: list[Piece] = []
    beginnings = _Beginnings(shift)
    at = 0
    count = len(keep)
    pace = RunPace()
    next_look = 0
    while at < count:
        if at >= next_look:
            run = find_run(data, pos, end, count - at)
            pace.note(at, 0 if run is None else run.records)
            next_look = pace.next_look
            if run is not None:
                _shift_run(data, run, keep[at : at + run.records], beginnings, pieces)
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
            pieces.append(beginnings[stop - rest, data[pos:rest]])
            pieces.append(data[rest:stop])
        pos = stop
        at += 1
    _check_end(pos, end)
    return pieces, beginnings.latest


def _check_end(pos: int, end: int) -> None:
    """Behind the records of a batch there may be other data: it must not have got into them."""
    if pos != end:
        raise ProtocolError(f"the records of a batch end {pos - end} bytes behind its end")


def _shift_run(data: bytes, run: Run, keep: bytes, beginnings: _Beginnings, pieces: list[Piece]) -> None:
    rests = _kept_ends(data, run, keep, run.stamp_end)
    if not rests:
        return
    stride = run.stride
    rest_size = run.start + stride - run.stamp_end
    at = done = 0
    while at < run.records:
        # Many have the time of those before them: what the first begins with goes between them too.
        head_at, head_end = run.body_at + at * stride, run.stamp_end + at * stride
        looked = min(run.records - at, _MOMENT_LOOK)
        same = same_bytes(data, range(head_at, head_end), stride, looked)
        if same < min(looked, _WORTH_JOINING):
            break
        kept = same - keep.count(0, at, at + same)
        if kept:
            beginning = beginnings[rest_size, data[head_at:head_end]]
            pieces += (beginning, beginning.join(rests[done : done + kept]))
        at += same
        done += kept
    else:
        return
    heads = _kept_fields(data, run, keep, run.body_at, run.stamp_end)[done:]
    new = {head: beginnings[rest_size, head] for head in set(heads)}
    pieces += itertools.chain.from_iterable(zip(map(new.__getitem__, heads), rests[done:], strict=True))


def _kept_ends(data: bytes, run: Run, keep: bytes, begin: int) -> Sequence[Piece]:
    """Of each record of a run that stays: what lies from a place (given of the first record) to its end."""
    stride = run.stride
    end = run.start + stride
    if stride < _LARGE_BYTES and _FEW * (len(keep) - keep.count(0)) > len(keep):
        return _kept_fields(data, run, keep, begin, end)
    view = memoryview(data)
    places = itertools.compress(range(run.records), keep)
    return [view[begin + place * stride : end + place * stride] for place in places]


def _kept_fields(data: bytes, run: Run, keep: bytes, begin: int, end: int) -> list[bytes]:
    fields = read_field(data, run, run.records, begin - run.start, end - begin)
    return list(itertools.compress(fields, keep))


class _Beginnings(dict[tuple[int, bytes], bytes]):
    """Length, attributes and timestamp of shifted records: most of a batch have one of a few.

    By the size of the rest of the record, and attributes and timestamp as they were.
    """

    def __init__(self, shift: int) -> None:
        super().__init__()
        self._shift = shift
        self._heads: dict[bytes, bytes] = {}
        """Attributes and timestamp: as they were, and shifted."""
        self.latest = _NONE_YET
        """The largest timestamp delta so far, shifted."""

    def __missing__(self, shape: tuple[int, bytes]) -> bytes:
        rest_size, head = shape
        shifted = self._heads.get(head)
        if shifted is None:
            delta = decode_varlong(head, 1)[0] + self._shift
            self.latest = max(self.latest, delta)
            shifted = self._heads[head] = head[:1] + encode_varint(delta)
        beginning = self[shape] = encode_varint(len(shifted) + rest_size) + shifted
        return beginning
