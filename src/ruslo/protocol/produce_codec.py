"""Produce, versions 3 to 13, without an object per field: a request becomes positions in its buffer.

Most requests have one topic with one partition, so these have their own path in each direction; other
requests take the general path. The bytes are those of the generated codec.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import TypeAlias

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError
from ruslo.protocol.flat_reader import FlatReader
from ruslo.protocol.leader_hints import (
    NO_LEADER,
    LeaderAndEpoch,
    NodeEndpoint,
    write_compact_string,
    write_node_endpoints,
    write_string,
)
from ruslo.protocol.primitives import DECODE_ERRORS, ENCODE_ERRORS, uvarint_tail, write_uvarint

MIN_VERSION = 3
MAX_VERSION = 13
_FLEXIBLE_FROM = 9
_LEADER_HINTS_FROM = 10
_TOPIC_IDS_FROM = 13

PartitionRecords: TypeAlias = tuple[int, int, int]
"""Partition index, start and end position of its records; both are -1 if the records are null."""

TopicRecords: TypeAlias = tuple[str | bytes, list[PartitionRecords]]
"""Topic name (topic id from version 13), and its partitions."""

ProduceBody: TypeAlias = tuple[str | None, int, int, list[TopicRecords]]
"""Transactional id, acks, timeout in milliseconds, topics."""

PartitionResult: TypeAlias = tuple[
    int, int, int, int, int, Sequence[tuple[int, str | None]] | None, str | None, LeaderAndEpoch | None
]
"""Partition index, error code, base offset, log append time, log start offset, record errors (index in the
batch, message), error message, current leader."""

TopicResult: TypeAlias = tuple[str | bytes, Sequence[PartitionResult]]
"""Topic name (topic id from version 13), and its partitions."""

# Requests of one topic and one partition; a name in the middle has a struct on each side.
_ID_START = Struct(">BhiB16sBiB")  # end of transactional id, acks, timeout, topics, id, then as below
_FLEXIBLE_START = Struct(">BhiBB")  # end of transactional id, acks, timeout, topics, length of the name
_FLEXIBLE_MIDDLE = Struct(">BiB")  # partitions, index, length of the records (first byte)
_OLD_START = Struct(">hhiih")  # transactional id (null), acks, timeout, topics, length of the name
_OLD_MIDDLE = Struct(">iii")  # partitions, index, length of the records
_THREE_EMPTY_TAGS = b"\x00\x00\x00"

# Responses: from index to log start offset, and the rest of a partition without errors.
_FLEXIBLE_PARTITION = Struct(">ihqqq")
_FLEXIBLE_CLEAN_PARTITION = Struct(">ihqqqBBB")  # no record errors, no error message, no tagged fields
_PARTITION_V8 = Struct(">ihqqqi")  # record errors: count
_PARTITION_V5 = Struct(">ihqqq")
_PARTITION_V3 = Struct(">ihqq")
_ID_RESPONSE = Struct(">B16sBihqqqBBBBiB")
_INT32 = Struct(">i")
_FLEXIBLE_END = Struct(">BiB")  # tagged fields of the topic, throttle time, tagged fields of the response
_LEADER_TAG = Struct(">BBBiiB")  # one tagged field, tag 0, its size, leader, epoch, no tagged fields in it


def decode_produce_request(buf: ReadBuffer, pos: int, end: int, version: int) -> ProduceBody:
    """Decode the request body in ``buf[pos:end]``; raises ProtocolError if it is malformed."""
    if not MIN_VERSION <= version <= MAX_VERSION:
        raise ProtocolError(
            f"Produce has no version {version}; versions {MIN_VERSION} to {MAX_VERSION} exist"
        )
    if end > len(buf):
        raise ProtocolError(
            f"malformed Produce request: {end - pos} bytes expected, {len(buf) - pos} present"
        )
    try:
        transactional_id = None
        # The byte before acks is the length of the transactional id if that is null, else its last byte.
        at = pos
        if version >= _FLEXIBLE_FROM and end > pos and 1 < (length := buf[pos]) < 128:
            at = pos + length - 1
            if at < end:
                transactional_id = str(buf[pos + 1 : at + 1], "utf-8")
        if version >= _TOPIC_IDS_FROM:
            if end - at >= 30:
                last, acks, timeout_ms, topics, topic, partitions, index, size = _ID_START.unpack_from(
                    buf, at
                )
                if (last == 0 or at > pos) and topics == 2 and partitions == 2:
                    start = at + 30
                    if size > 127:
                        size, start = uvarint_tail(buf, start, size)
                    stop = start + size - 1
                    if size and stop + 3 == end and buf[stop:end] == _THREE_EMPTY_TAGS:
                        return transactional_id, acks, timeout_ms, [(topic, [(index, start, stop)])]
        elif version >= _FLEXIBLE_FROM:
            if end - at >= 9:
                last, acks, timeout_ms, topics, length = _FLEXIBLE_START.unpack_from(buf, at)
                if (last == 0 or at > pos) and topics == 2 and 0 < length < 128:
                    start = at + 9
                    stop = start + length - 1
                    if stop + 6 <= end:
                        partitions, index, size = _FLEXIBLE_MIDDLE.unpack_from(buf, stop)
                        if partitions == 2:
                            name = str(buf[start:stop], "utf-8")
                            start = stop + 6
                            if size > 127:
                                size, start = uvarint_tail(buf, start, size)
                            stop = start + size - 1
                            if size and stop + 3 == end and buf[stop:end] == _THREE_EMPTY_TAGS:
                                return transactional_id, acks, timeout_ms, [(name, [(index, start, stop)])]
        elif end - pos >= 14:
            no_id, acks, timeout_ms, topics, length = _OLD_START.unpack_from(buf, pos)
            if no_id == -1 and topics == 1 and length >= 0:
                start = pos + 14
                stop = start + length
                if stop + 12 <= end:
                    partitions, index, size = _OLD_MIDDLE.unpack_from(buf, stop)
                    if partitions == 1 and size >= 0 and stop + 12 + size == end:
                        name = str(buf[start:stop], "utf-8")
                        return None, acks, timeout_ms, [(name, [(index, stop + 12, end)])]
        return _decode_any(FlatReader("Produce request", buf, pos, end, version >= _FLEXIBLE_FROM), version)
    except DECODE_ERRORS as error:
        raise ProtocolError(f"malformed Produce request version {version}: {error}") from error


def _decode_any(reader: FlatReader, version: int) -> ProduceBody:
    transactional_id = reader.nullable_string()
    acks = reader.int16()
    timeout_ms = reader.int32()
    topics: list[TopicRecords] = []
    for _ in range(reader.array_length()):
        topic: str | bytes = reader.uuid() if version >= _TOPIC_IDS_FROM else reader.string()
        partitions: list[PartitionRecords] = []
        for _ in range(reader.array_length()):
            index = reader.int32()
            start, stop = reader.nullable_bytes()
            reader.skip_tags()
            partitions.append((index, start, stop))
        reader.skip_tags()
        topics.append((topic, partitions))
    reader.skip_tags()
    reader.finish()
    return transactional_id, acks, timeout_ms, topics


def encode_produce_response(
    out: bytearray,
    version: int,
    topics: Sequence[TopicResult],
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> None:
    """Append the response body; fields that the version does not have are left out."""
    if not MIN_VERSION <= version <= MAX_VERSION:
        raise ProtocolError(
            f"Produce has no version {version}; versions {MIN_VERSION} to {MAX_VERSION} exist"
        )
    begin = len(out)
    try:
        if version < _FLEXIBLE_FROM:
            _encode_old(out, version, topics, throttle_time_ms)
            return
        if len(topics) == 1 and not node_endpoints:
            topic, partitions = topics[0]
            if len(partitions) == 1:
                index, error, base, append_time, start, record_errors, message, leader = partitions[0]
                if record_errors is None and message is None and leader is None:
                    if version >= _TOPIC_IDS_FROM:
                        assert len(topic) == 16
                        out += _ID_RESPONSE.pack(
                            2,
                            topic,
                            2,
                            index,
                            error,
                            base,
                            append_time,
                            start,
                            1,
                            0,
                            0,
                            0,
                            throttle_time_ms,
                            0,
                        )
                        return
                    assert isinstance(topic, str)
                    name = topic.encode()
                    if len(name) < 127:
                        out += b"\x02"
                        out.append(len(name) + 1)
                        out += name
                        out += b"\x02"
                        out += _FLEXIBLE_CLEAN_PARTITION.pack(index, error, base, append_time, start, 1, 0, 0)
                        out += _FLEXIBLE_END.pack(0, throttle_time_ms, 0)
                        return
        _encode_flexible(out, version, topics, throttle_time_ms, node_endpoints)
    except ENCODE_ERRORS as problem:
        del out[begin:]
        raise ProtocolError(f"cannot encode Produce response version {version}: {problem}") from problem


def _encode_flexible(
    out: bytearray,
    version: int,
    topics: Sequence[TopicResult],
    throttle_time_ms: int,
    node_endpoints: Sequence[NodeEndpoint],
) -> None:
    write_uvarint(out, len(topics) + 1)
    for topic, partitions in topics:
        if version >= _TOPIC_IDS_FROM:
            assert isinstance(topic, bytes)
            assert len(topic) == 16
            out += topic
        else:
            assert isinstance(topic, str)
            write_compact_string(out, topic)
        write_uvarint(out, len(partitions) + 1)
        for index, error, base, append_time, start, record_errors, message, leader in partitions:
            out += _FLEXIBLE_PARTITION.pack(index, error, base, append_time, start)
            write_uvarint(out, len(record_errors or ()) + 1)
            for batch_index, record_message in record_errors or ():
                out += _INT32.pack(batch_index)
                write_compact_string(out, record_message)
                out.append(0)
            write_compact_string(out, message)
            if leader is None or leader == NO_LEADER or version < _LEADER_HINTS_FROM:
                out.append(0)
            else:
                out += _LEADER_TAG.pack(1, 0, 9, leader[0], leader[1], 0)
        out.append(0)
    out += _INT32.pack(throttle_time_ms)
    if node_endpoints and version >= _LEADER_HINTS_FROM:
        write_node_endpoints(out, node_endpoints)
    else:
        out.append(0)


def _encode_old(out: bytearray, version: int, topics: Sequence[TopicResult], throttle_time_ms: int) -> None:
    out += _INT32.pack(len(topics))
    for topic, partitions in topics:
        assert isinstance(topic, str)
        write_string(out, topic)
        out += _INT32.pack(len(partitions))
        for index, error, base, append_time, start, record_errors, message, _ in partitions:
            if version >= 8:
                out += _PARTITION_V8.pack(index, error, base, append_time, start, len(record_errors or ()))
                for batch_index, record_message in record_errors or ():
                    out += _INT32.pack(batch_index)
                    write_string(out, record_message)
                write_string(out, message)
            elif version >= 5:
                out += _PARTITION_V5.pack(index, error, base, append_time, start)
            else:
                out += _PARTITION_V3.pack(index, error, base, append_time)
    out += _INT32.pack(throttle_time_ms)
