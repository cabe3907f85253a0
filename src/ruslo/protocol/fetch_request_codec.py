"""Decodes Fetch requests, versions 4 to 18, to flat tuples."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple, TypeAlias

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError
from ruslo.model.ids import ZERO_UUID
from ruslo.protocol.flat_reader import MAX_ELEMENTS, FlatReader, too_many_elements
from ruslo.protocol.primitives import (
    DECODE_ERRORS,
    STRING_BYTES_MAX,
    length_error,
    read_unknown_tags,
    read_uvarint,
    tag_size_error,
    tag_version_error,
    uvarint_tail,
)

MIN_VERSION = 4
MAX_VERSION = 18
_FLEXIBLE_FROM = 12
_TOPIC_IDS_FROM = 13
_REPLICA_STATE_FROM = 15
_DIRECTORY_ID_FROM = 17
_HIGH_WATERMARK_FROM = 18

UNKNOWN_HIGH_WATERMARK = 2**63 - 1
"""The high watermark of a follower that does not send it (KIP-1166)."""

PartitionFetch: TypeAlias = tuple[int, int, int, int, int, int, bytes, int]
"""Partition, current leader epoch, fetch offset, last fetched epoch, log start offset, max bytes, replica's
directory id, high watermark."""

TopicFetch: TypeAlias = tuple[str | bytes, list[PartitionFetch]]
"""Topic name (topic id from version 13), and the partitions to fetch."""

TopicForgotten: TypeAlias = tuple[str | bytes, list[int]]
"""Topic name (topic id from version 13), and the partitions to drop from the session."""


class FetchBody(NamedTuple):
    cluster_id: str | None
    replica_id: int
    """-1 for a consumer."""
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[TopicFetch]
    forgotten_topics: list[TopicForgotten]
    rack_id: str


_PARTITION_TAGS_MAX = 2
"""The most tagged fields of a partition that followers send."""
_NO_TAGS = (ZERO_UUID, UNKNOWN_HIGH_WATERMARK)
_OLD_EMPTY_END = bytes(6)  # version 11: nothing forgotten, no rack

_START_V4 = Struct(">iiiib")  # replica id, max wait, min bytes, max bytes, isolation level
_START_V7 = Struct(">iiiibii")  # and session id, session epoch
_START_V15 = Struct(">iiibii")  # no replica id
_PARTITION_V4 = Struct(">iqi")
_PARTITION_V5 = Struct(">iqqi")
_PARTITION_V9 = Struct(">iiqqi")
_PARTITION_V12 = Struct(">iiqiqi")
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_REPLICA_STATE = Struct(">iq")
_ONLY_REPLICA_STATE = bytes((1, 1, 13))  # what followers send: one tagged field, tag 1, 13 bytes


def decode_fetch_request(buf: ReadBuffer, pos: int, end: int, version: int) -> FetchBody:
    """Decode the request body in ``buf[pos:end]``; raises ProtocolError if it is malformed."""
    if not MIN_VERSION <= version <= MAX_VERSION:
        raise ProtocolError(f"Fetch has no version {version}; versions {MIN_VERSION} to {MAX_VERSION} exist")
    if end > len(buf):
        raise ProtocolError(f"malformed Fetch request: {end - pos} bytes expected, {len(buf) - pos} present")
    try:
        if version >= _FLEXIBLE_FROM:
            return _decode_flexible(buf, pos, end, version)
        return _decode_old(buf, pos, end, version)
    except DECODE_ERRORS as error:
        raise ProtocolError(f"malformed Fetch request version {version}: {error}") from error


def _decode_flexible(buf: ReadBuffer, pos: int, end: int, version: int) -> FetchBody:
    """Versions from 12, which followers and most consumers send; only rare fields are read by calls.

    A fixed-size field may be read past ``end``; the check at the end of the request detects that.
    """
    if version >= _REPLICA_STATE_FROM:
        replica_id = -1
        max_wait, min_bytes, max_bytes, isolation, session_id, epoch = _START_V15.unpack_from(buf, pos)
        pos += 21
    else:
        replica_id, max_wait, min_bytes, max_bytes, isolation, session_id, epoch = _START_V7.unpack_from(
            buf, pos
        )
        pos += 25
    count = buf[pos]
    pos += 1
    if count > 127:
        count, pos = uvarint_tail(buf, pos, count)
    if count == 0 or count > end - pos:
        raise length_error("topics of Fetch request", count - 1, end - pos)
    elements = count - 1
    topics: list[TopicFetch] = []
    for _ in range(count - 1):
        if version >= _TOPIC_IDS_FROM:
            topic: str | bytes = bytes(buf[pos : pos + 16])
            pos += 16
        else:
            topic, pos = _compact_string(buf, pos, end)
        count = buf[pos]
        pos += 1
        if count > 127:
            count, pos = uvarint_tail(buf, pos, count)
        if count == 0 or count > end - pos:
            raise length_error("partitions of Fetch request", count - 1, end - pos)
        elements += count - 1
        if elements > MAX_ELEMENTS:
            raise too_many_elements("Fetch request")
        partitions: list[PartitionFetch] = []
        for _ in range(count - 1):
            fields = _PARTITION_V12.unpack_from(buf, pos)
            pos += 32
            if buf[pos]:
                if buf[pos] > _PARTITION_TAGS_MAX:
                    elements = _count_tags(elements, buf[pos])
                reader = FlatReader("Fetch request", buf, pos, end, flexible=True)
                partitions.append(fields + _decode_partition_tags(reader, version))
                pos = reader.pos
            else:
                partitions.append(fields + _NO_TAGS)
                pos += 1
        topics.append((topic, partitions))
        if buf[pos]:
            elements = _count_tags(elements, buf[pos])
            pos = _skip_tags(buf, pos, end)
        else:
            pos += 1
    forgotten: list[TopicForgotten] = []
    if buf[pos] == 1:
        pos += 1
    else:
        reader = FlatReader("Fetch request", buf, pos, end, flexible=True)
        forgotten = _decode_forgotten(reader, version)
        pos = reader.pos
    rack_id = ""
    if buf[pos] == 1:
        pos += 1
    else:
        rack_id, pos = _compact_string(buf, pos, end)
    cluster_id, replica_epoch = None, -1
    if version >= _REPLICA_STATE_FROM and buf[pos : pos + 3] == _ONLY_REPLICA_STATE and not buf[pos + 15]:
        replica_id, replica_epoch = _REPLICA_STATE.unpack_from(buf, pos + 3)
        pos += 16
    elif buf[pos]:
        reader = FlatReader("Fetch request", buf, pos, end, flexible=True)
        cluster_id, state_id, replica_epoch = _decode_request_tags(reader, version)
        pos = reader.pos
        if version >= _REPLICA_STATE_FROM:
            replica_id = state_id
    else:
        pos += 1
    if pos != end:
        raise ProtocolError(f"malformed Fetch request: {end - pos} bytes left at its end")
    return FetchBody(
        cluster_id,
        replica_id,
        replica_epoch,
        max_wait,
        min_bytes,
        max_bytes,
        isolation,
        session_id,
        epoch,
        topics,
        forgotten,
        rack_id,
    )


def _decode_old(buf: ReadBuffer, pos: int, end: int, version: int) -> FetchBody:
    session_id, session_epoch = 0, -1
    if version >= 7:
        replica_id, max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch = (
            _START_V7.unpack_from(buf, pos)
        )
        pos += 25
    else:
        replica_id, max_wait, min_bytes, max_bytes, isolation = _START_V4.unpack_from(buf, pos)
        pos += 17
    (count,) = _INT32.unpack_from(buf, pos)
    pos += 4
    if not 0 <= count <= end - pos:
        raise length_error("topics of Fetch request", count, end - pos)
    elements = count
    topics: list[TopicFetch] = []
    for _ in range(count):
        (size,) = _INT16.unpack_from(buf, pos)
        stop = pos + 2 + size
        if size < 0 or stop > end:
            raise length_error("topic of Fetch request", size, end - pos)
        topic = str(buf[pos + 2 : stop], "utf-8")
        (count,) = _INT32.unpack_from(buf, stop)
        pos = stop + 4
        if not 0 <= count <= end - pos:
            raise length_error("partitions of Fetch request", count, end - pos)
        elements += count
        if elements > MAX_ELEMENTS:
            raise too_many_elements("Fetch request")
        partitions: list[PartitionFetch] = []
        leader_epoch = start = -1
        for _ in range(count):
            if version >= 9:
                partition, leader_epoch, offset, start, partition_bytes = _PARTITION_V9.unpack_from(buf, pos)
                pos += 28
            elif version >= 5:
                partition, offset, start, partition_bytes = _PARTITION_V5.unpack_from(buf, pos)
                pos += 24
            else:
                partition, offset, partition_bytes = _PARTITION_V4.unpack_from(buf, pos)
                pos += 16
            partitions.append(
                (
                    partition,
                    leader_epoch,
                    offset,
                    -1,
                    start,
                    partition_bytes,
                    ZERO_UUID,
                    UNKNOWN_HIGH_WATERMARK,
                )
            )
        topics.append((topic, partitions))
    forgotten: list[TopicForgotten] = []
    rack_id = ""
    if version >= 7 and (version < 11 or buf[pos:end] != _OLD_EMPTY_END):
        reader = FlatReader("Fetch request", buf, pos, end, flexible=False)
        forgotten = _decode_forgotten(reader, version)
        rack_id = reader.string() if version >= 11 else ""
        reader.finish()
    elif version < 7 and pos != end:
        raise ProtocolError(f"malformed Fetch request: {end - pos} bytes left at its end")
    return FetchBody(
        None,
        replica_id,
        -1,
        max_wait,
        min_bytes,
        max_bytes,
        isolation,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack_id,
    )


def _decode_forgotten(reader: FlatReader, version: int) -> list[TopicForgotten]:
    forgotten: list[TopicForgotten] = []
    for _ in range(reader.array_length()):
        topic = reader.uuid() if version >= _TOPIC_IDS_FROM else reader.string()
        forgotten.append((topic, reader.int32_array()))
        reader.skip_tags()
    return forgotten


def _compact_string(buf: ReadBuffer, pos: int, end: int) -> tuple[str, int]:
    size, pos = read_uvarint(buf, pos)
    stop = pos + size - 1
    if size == 0 or stop > end or size > STRING_BYTES_MAX + 1:
        raise length_error("string of Fetch request", size - 1, end - pos)
    return str(buf[pos:stop], "utf-8"), stop


def _count_tags(elements: int, count_byte: int) -> int:
    """Count tagged fields that no client sends as elements; a count of two bytes is rejected."""
    if count_byte > 127 or elements + count_byte > MAX_ELEMENTS:
        raise too_many_elements("Fetch request")
    return elements + count_byte


def _skip_tags(buf: ReadBuffer, pos: int, end: int) -> int:
    _, pos = read_unknown_tags(buf, pos + 1, end, buf[pos])
    return pos


def _decode_partition_tags(reader: FlatReader, version: int) -> tuple[bytes, int]:
    directory_id, high_watermark = _NO_TAGS
    for tag, start, stop in reader.tags():
        if tag == 0:
            if version < _DIRECTORY_ID_FROM:
                raise tag_version_error("Fetch partition", tag, version)
            if stop - start != 16:
                raise tag_size_error("replica directory id", stop - start, 16)
            directory_id = bytes(reader.buf[start:stop])
        elif tag == 1:
            if version < _HIGH_WATERMARK_FROM:
                raise tag_version_error("Fetch partition", tag, version)
            if stop - start != 8:
                raise tag_size_error("high watermark", stop - start, 8)
            (high_watermark,) = _INT64.unpack_from(reader.buf, start)
    return directory_id, high_watermark


def _decode_request_tags(reader: FlatReader, version: int) -> tuple[str | None, int, int]:
    """Decode cluster id, replica id and replica epoch."""
    cluster_id, replica_id, replica_epoch = None, -1, -1
    for tag, start, stop in reader.tags():
        inner = FlatReader("Fetch request", reader.buf, start, stop, flexible=True)
        if tag == 0:
            cluster_id = inner.nullable_string()
            inner.finish()
        elif tag == 1:
            if version < _REPLICA_STATE_FROM:
                raise tag_version_error("Fetch request", tag, version)
            replica_id, replica_epoch = _REPLICA_STATE.unpack_from(reader.buf, start)
            inner.pos += _REPLICA_STATE.size
            inner.skip_tags()
            inner.finish()
    return cluster_id, replica_id, replica_epoch
