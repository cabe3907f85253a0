"""Takes records out of a batch: what stays is copied as it lies, byte for byte.

Offsets, sequences and flags of the batch stay, so nothing inside a record changes. The one exception is a new
delete horizon (KIP-534): it takes the place of the base timestamp, from which every timestamp is counted.
"""

from __future__ import annotations

from ruslo.model.errors import ProtocolError
from ruslo.records.batch import DELETE_HORIZON, LOG_APPEND_TIME, NO_TIMESTAMP, BatchHeader
from ruslo.records.builder import assemble_batch
from ruslo.records.compression import compress
from ruslo.records.varint import decode_varint, decode_varlong, encode_varint


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
    latest: int | None = None
    pos = begin = 0
    previous = 0
    for wanted in keep:
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
        if wanted:
            delta = body[pos + 1]
            delta = (delta >> 1) ^ -(delta & 1) if delta <= 0x7F else decode_varlong(body, pos + 1)[0]
            if latest is None or delta > latest:
                latest = delta
            if not previous:
                begin = start
        elif previous:
            pieces.append(body[begin:start])
        previous = wanted
        pos += length >> 1
    if previous:
        pieces.append(body[begin:pos])
    assert latest is not None
    return pieces, latest


def _cut_and_shift(body: bytes, keep: bytes, shift: int) -> tuple[list[bytes], int]:
    """The kept records with ``shift`` added to each timestamp delta, and the largest delta then."""
    pieces: list[bytes] = []
    latest: int | None = None
    # Most records of a batch have one of a few lengths and timestamps, so their beginnings repeat.
    beginnings: dict[tuple[int, int, int], bytes] = {}
    pos = 0
    for wanted in keep:
        length = body[pos]
        pos += 1
        if length > 0x7F:
            high = body[pos]
            pos += 1
            length += (high << 7) - 0x80
            if high > 0x7F:
                length, pos = decode_varint(body, pos - 2)
                length <<= 1
        length >>= 1
        stop = pos + length
        if wanted:
            delta, rest = body[pos + 1], pos + 2
            if delta > 0x7F:
                delta, rest = decode_varlong(body, pos + 1)
            else:
                delta = (delta >> 1) ^ -(delta & 1)
            if latest is None or delta > latest:
                latest = delta
            shape = (stop - rest, delta, body[pos])
            beginning = beginnings.get(shape)
            if beginning is None:
                shifted = encode_varint(delta + shift)
                beginning = encode_varint(1 + len(shifted) + stop - rest) + body[pos : pos + 1] + shifted
                beginnings[shape] = beginning
            pieces.append(beginning)
            pieces.append(body[rest:stop])
        pos = stop
    assert latest is not None
    return pieces, latest + shift
