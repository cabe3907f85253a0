"""Fetch, versions 15 to 18, as a follower sends and reads it, without an object per field.

This is the client side of ``fetch_codec``. Only the fields of a response that a follower uses are decoded;
records are positions in the frame. The bytes are those of the generated codec.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple, TypeAlias

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError
from ruslo.model.ids import Uuid
from ruslo.protocol.flat_reader import FlatReader
from ruslo.protocol.primitives import DECODE_ERRORS, length_error, uvarint_tail, write_uvarint

MIN_VERSION = 15

ReplicaPartitionFetch: TypeAlias = tuple[int, int, int, int, int, int]
"""Partition, current leader epoch, fetch offset, last fetched epoch, log start offset, max bytes."""

NO_DIVERGENCE = (-1, -1)

ReplicaPartitionData: TypeAlias = tuple[Uuid, int, int, int, int, tuple[int, int], int, int]
"""Topic id, partition, error code, high watermark, log start offset, diverging epoch and its end offset, and
the start and end position of the records in the frame."""


class ReplicaFetchResponse(NamedTuple):
    error_code: int
    session_id: int
    partitions: list[ReplicaPartitionData]


_REQUEST_START = Struct(">iiibii")  # max wait, min bytes, max bytes, isolation level, session id and epoch
_PARTITION = Struct(">iiqiqiB")  # and no tagged fields
_REQUEST_END = Struct(">BBBBiqB")
"""No rack, one tagged field with tag and size: replica id and epoch, no tagged fields in it."""
_RESPONSE_START = Struct(">ihi")  # throttle time, error code, session id
_RESULT = Struct(">ihqqqB")  # index, error, three offsets, aborted transactions (count + 1)
_ABORTED_BYTES = 16
_EPOCH_END = Struct(">iq")
_PREFERRED_REPLICA_BYTES = 4


def encode_replica_fetch_request(
    out: bytearray,
    *,
    replica_id: int,
    replica_epoch: int,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    session_id: int,
    session_epoch: int,
    topics: Sequence[tuple[Uuid, Sequence[ReplicaPartitionFetch]]],
    forgotten: Sequence[tuple[Uuid, Sequence[int]]],
) -> None:
    """Append the body of a request, which is the same for all versions from 15."""
    out += _REQUEST_START.pack(max_wait_ms, min_bytes, max_bytes, 0, session_id, session_epoch)
    write_uvarint(out, len(topics) + 1)
    for topic_id, partitions in topics:
        out += topic_id
        write_uvarint(out, len(partitions) + 1)
        for partition in partitions:
            out += _PARTITION.pack(*partition, 0)
        out.append(0)
    write_uvarint(out, len(forgotten) + 1)
    for topic_id, indexes in forgotten:
        out += topic_id
        write_uvarint(out, len(indexes) + 1)
        out += Struct(f">{len(indexes)}i").pack(*indexes)
        out.append(0)
    out += _REQUEST_END.pack(1, 1, 1, 13, replica_id, replica_epoch, 0)


def decode_replica_fetch_response(buf: ReadBuffer, pos: int, end: int) -> ReplicaFetchResponse:
    """Decode the response body in ``buf[pos:end]``; raises ProtocolError if it is malformed."""
    try:
        return _decode(buf, pos, end)
    except DECODE_ERRORS as error:
        raise ProtocolError(f"malformed Fetch response: {error}") from error


def _decode(buf: ReadBuffer, pos: int, end: int) -> ReplicaFetchResponse:
    """Decode the body. A fixed-size field may be read past ``end``; the check at the end detects that."""
    _, error_code, session_id = _RESPONSE_START.unpack_from(buf, pos)
    topics, pos = _count(buf, pos + _RESPONSE_START.size, end, "topics")
    found: list[ReplicaPartitionData] = []
    for _ in range(topics):
        topic_id = bytes(buf[pos : pos + 16])
        partitions, pos = _count(buf, pos + 16, end, "partitions")
        for _ in range(partitions):
            index, error, high_watermark, _, log_start, aborted = _RESULT.unpack_from(buf, pos)
            pos += _RESULT.size
            if aborted > 1:
                pos = _skip_aborted(buf, pos - 1, end)
            pos += _PREFERRED_REPLICA_BYTES
            size = buf[pos]
            pos += 1
            if size > 127:
                size, pos = uvarint_tail(buf, pos, size)
            start = pos
            # Null, which is 0, is the same as empty.
            pos += max(size - 1, 0)
            if pos > end:
                raise length_error("records of Fetch response", size - 1, end - start)
            stop = pos
            diverging = NO_DIVERGENCE
            if buf[pos]:
                diverging, pos = _diverging_epoch(buf, pos, end)
            else:
                pos += 1
            found.append((topic_id, index, error, high_watermark, log_start, diverging, start, stop))
        pos = _skip_tags(buf, pos, end)
    pos = _skip_tags(buf, pos, end)
    if pos != end:
        raise ProtocolError(f"malformed Fetch response: {end - pos} bytes left at its end")
    return ReplicaFetchResponse(error_code, session_id, found)


def _count(buf: ReadBuffer, pos: int, end: int, field: str) -> tuple[int, int]:
    """The number of elements of an array, each of at least one byte, and the position after it."""
    count = buf[pos]
    pos += 1
    if count > 127:
        count, pos = uvarint_tail(buf, pos, count)
    if count == 0 or count > end - pos:
        raise length_error(f"{field} of Fetch response", count - 1, end - pos)
    return count - 1, pos


def _skip_aborted(buf: ReadBuffer, pos: int, end: int) -> int:
    reader = FlatReader("Fetch response", buf, pos, end, flexible=True)
    for _ in range(reader.array_length()):
        reader.pos += _ABORTED_BYTES
        reader.skip_tags()
    return reader.pos


def _skip_tags(buf: ReadBuffer, pos: int, end: int) -> int:
    if not buf[pos]:
        return pos + 1
    reader = FlatReader("Fetch response", buf, pos, end, flexible=True)
    reader.skip_tags()
    return reader.pos


def _diverging_epoch(buf: ReadBuffer, pos: int, end: int) -> tuple[tuple[int, int], int]:
    reader = FlatReader("Fetch response", buf, pos, end, flexible=True)
    diverging = NO_DIVERGENCE
    for tag, start, stop in reader.tags():
        if tag == 0:
            inner = FlatReader("diverging epoch", buf, start, stop, flexible=True)
            epoch, end_offset = _EPOCH_END.unpack_from(buf, start)
            inner.pos += _EPOCH_END.size
            inner.skip_tags()
            inner.finish()
            diverging = (epoch, end_offset)
    return diverging, reader.pos
