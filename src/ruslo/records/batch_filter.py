"""Takes records out of a batch: what stays is copied as it lies, byte for byte.

Offsets, sequences and flags of the batch stay, so nothing inside a record changes. The one exception is a new
delete horizon (KIP-534): it takes the place of the base timestamp, from which every timestamp is counted.
"""

from __future__ import annotations

import itertools

from ruslo.model.errors import ProtocolError
from ruslo.records.batch import DELETE_HORIZON, LOG_APPEND_TIME, NO_TIMESTAMP, BatchHeader
from ruslo.records.builder import assemble_batch
from ruslo.records.compression import compress
from ruslo.records.runs import Run, RunPace, find_run, read_fields
from ruslo.records.varint import decode_varint, decode_varlong, encode_varint

_NONE_YET = -(1 << 63)


def filter_batch(
    header: BatchHeader, body: bytes, keep: bytes, *, delete_horizon_ms: int | None = None
) -> bytearray:
    """The batch with only those records of its unfolded ``body`` whose byte in ``keep`` is not 0.

    At least one must stay (for none, see ``rebuild_batch``). ``delete_horizon_ms`` is set on a batch that has
    none yet.
    """
    shift = None if delete_horizon_ms is None else header.base_timestamp - delete_horizon_ms
    try:
        pieces, latest = _cut(body, keep) if shift is None else _cut_and_shift(body, keep, shift)
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
    records = b"".join(pieces)
    return assemble_batch(changed, compress(header.codec, records) if header.codec else records)


def _cut(body: bytes, keep: bytes) -> tuple[list[bytes], int]:
    """The kept stretches, and the largest timestamp delta in them."""
    pieces: list[bytes] = []
    latest = _NONE_YET
    pos = begin = at = 0
    previous = 0
    count = len(keep)
    pace = RunPace()
    next_look = 0
    while at < count:
        if at >= next_look:
            run = find_run(body, pos, len(body), count - at)
            pace.note(at, 0 if run is None else run.records)
            next_look = pace.next_look
            if run is not None:
                if previous:
                    pieces.append(body[begin:pos])
                previous = 0
                latest = max(latest, _cut_run(body, run, keep[at : at + run.records], pieces))
                pos, at = run.end, at + run.records
                continue
        start = pos
        length = body[pos]
        pos += 1
        if length > 0x7F:
            high = body[pos]
            pos += 1
            length += (high << 7) - 0x80
            if high > 0x7F:
                length, pos = decode_varint(body, start)
                length <<= 1
        wanted = keep[at]
        if wanted:
            delta = body[pos + 1]
            delta = (delta >> 1) ^ -(delta & 1) if delta <= 0x7F else decode_varlong(body, pos + 1)[0]
            if delta > latest:
                latest = delta
            if not previous:
                begin = start
        elif previous:
            pieces.append(body[begin:start])
        previous = wanted
        pos += length >> 1
        at += 1
    if previous:
        pieces.append(body[begin:pos])
    return pieces, latest


def _cut_run(body: bytes, run: Run, keep: bytes, pieces: list[bytes]) -> int:
    """Add the kept records of a run to ``pieces``; returns the largest timestamp delta in them."""
    start, stride = run.start, run.stride
    width = run.stamp_end - run.stamp_at
    stamps = f"{run.stamp_at - start}x{width}s{start + stride - run.stamp_end}x"
    pieces += _kept(read_fields(body, start, run.records, f"{stride}s"), keep)
    kept = set(_kept(read_fields(body, start, run.records, stamps), keep))
    return max((decode_varlong(stamp, 0)[0] for stamp in kept), default=_NONE_YET)


def _cut_and_shift(body: bytes, keep: bytes, shift: int) -> tuple[list[bytes], int]:
    """The kept records with ``shift`` added to each timestamp delta, and the largest delta then."""
    pieces: list[bytes] = []
    beginnings = _Beginnings(shift)
    pos = at = 0
    count = len(keep)
    pace = RunPace()
    next_look = 0
    while at < count:
        if at >= next_look:
            run = find_run(body, pos, len(body), count - at)
            pace.note(at, 0 if run is None else run.records)
            next_look = pace.next_look
            if run is not None:
                _shift_run(body, run, keep[at : at + run.records], beginnings, pieces)
                pos, at = run.end, at + run.records
                continue
        length = body[pos]
        pos += 1
        if length > 0x7F:
            high = body[pos]
            pos += 1
            length += (high << 7) - 0x80
            if high > 0x7F:
                length, pos = decode_varint(body, pos - 2)
                length <<= 1
        stop = pos + (length >> 1)
        if keep[at]:
            rest = pos + 2
            if body[pos + 1] > 0x7F:
                rest = decode_varlong(body, pos + 1)[1]
            pieces.append(beginnings[stop - rest, body[pos:rest]])
            pieces.append(body[rest:stop])
        pos = stop
        at += 1
    return pieces, beginnings.latest


def _shift_run(body: bytes, run: Run, keep: bytes, beginnings: _Beginnings, pieces: list[bytes]) -> None:
    rest_size = run.start + run.stride - run.stamp_end
    layout = f"{run.body_at - run.start}x{run.stamp_end - run.body_at}s{rest_size}s"
    fields = read_fields(body, run.start, run.records, layout)
    kept = _kept(fields[0::2], keep)
    new = {head: beginnings[rest_size, head] for head in set(kept)}
    shifted = fields[: 2 * len(kept)]
    shifted[0::2] = map(new.__getitem__, kept)
    shifted[1::2] = _kept(fields[1::2], keep)
    pieces += shifted


def _kept(items: list[bytes], keep: bytes) -> list[bytes]:
    return list(itertools.compress(items, keep))


class _Beginnings(dict[tuple[int, bytes], bytes]):
    """Length, attributes and timestamp of shifted records: most of a batch have one of a few.

    By the size of the rest of the record, and attributes and timestamp as they were.
    """

    def __init__(self, shift: int) -> None:
        super().__init__()
        self._shift = shift
        self.latest = _NONE_YET
        """The largest timestamp delta so far, shifted."""

    def __missing__(self, shape: tuple[int, bytes]) -> bytes:
        rest_size, head = shape
        delta = decode_varlong(head, 1)[0] + self._shift
        self.latest = max(self.latest, delta)
        shifted = encode_varint(delta)
        beginning = self[shape] = encode_varint(1 + len(shifted) + rest_size) + head[:1] + shifted
        return beginning
