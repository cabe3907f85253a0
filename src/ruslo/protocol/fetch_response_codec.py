"""Frames Fetch responses, versions 4 to 18, around records that stay in their file or buffer."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple, TypeAlias, TypeVar

from ruslo.model.errors import ProtocolError
from ruslo.protocol.leader_hints import (
    NO_LEADER,
    LeaderAndEpoch,
    NodeEndpoint,
    write_compact_string,
    write_node_endpoints,
    write_string,
)
from ruslo.protocol.primitives import ENCODE_ERRORS, write_uvarint

MIN_VERSION = 4
MAX_VERSION = 18
_FLEXIBLE_FROM = 12
_TOPIC_IDS_FROM = 13
_NODE_ENDPOINTS_FROM = 16


class FetchHints(NamedTuple):
    """Fields that only a few partitions have: each is a tagged field, from version 12."""

    diverging_epoch: tuple[int, int] | None = None
    """Epoch, end offset: where the follower must truncate its log."""
    current_leader: LeaderAndEpoch | None = None
    snapshot_id: tuple[int, int] | None = None
    """End offset, epoch: the snapshot to load instead."""


Records = TypeVar("Records")

FetchedPartition: TypeAlias = tuple[
    int, int, int, int, int, Sequence[tuple[int, int]] | None, int, Records | None, int, FetchHints | None
]
"""Partition, error code, high watermark, last stable offset, log start offset, aborted transactions (producer
id, first offset), preferred read replica (-1: none), the records, their size in bytes (-1: null), hints."""

FetchedTopic: TypeAlias = tuple[str | bytes, Sequence[FetchedPartition[Records]]]
"""Topic name (topic id from version 13), and its partitions."""

_INT32 = Struct(">i")
_RESPONSE_START_V4 = Struct(">i")  # throttle time
_RESPONSE_START_V7 = Struct(">ihi")  # and error code, session id
_RESULT_V12 = Struct(">ihqqq")
_RESULT_V12_PLAIN = Struct(">ihqqqBi")  # no aborted transactions (null), preferred read replica
_RESULT_V5 = Struct(">ihqqqi")  # count of aborted transactions
_RESULT_V4 = Struct(">ihqqi")
_ABORTED = Struct(">qq")
_ABORTED_FLEXIBLE = Struct(">qqB")
_EPOCH_END_TAG = Struct(">BBiqB")  # tag, size, epoch, end offset, no tagged fields in it
_LEADER_TAG = Struct(">BBiiB")
_SNAPSHOT_TAG = Struct(">BBqiB")


def encode_fetch_response(
    out: bytearray,
    version: int,
    topics: Sequence[FetchedTopic[Records]],
    *,
    throttle_time_ms: int = 0,
    error_code: int = 0,
    session_id: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> tuple[list[bytearray | Records], int]:
    """Frame the response body: the chunks to send, in order, and their total size in bytes.

    ``out`` may already have the length and header of the frame; it becomes the first chunk. A chunk that is
    not a bytearray of this function is the ``records`` of a partition; empty records are left out. Fields
    that the version does not have are left out too.
    """
    if not MIN_VERSION <= version <= MAX_VERSION:
        raise ProtocolError(f"Fetch has no version {version}; versions {MIN_VERSION} to {MAX_VERSION} exist")
    begin = len(out)
    try:
        if version >= 7:
            out += _RESPONSE_START_V7.pack(throttle_time_ms, error_code, session_id)
        else:
            out += _RESPONSE_START_V4.pack(throttle_time_ms)
        if version < _FLEXIBLE_FROM:
            return _encode_old(out, version, topics)
        return _encode_flexible(out, version, topics, node_endpoints)
    except ENCODE_ERRORS as error:
        del out[begin:]
        raise ProtocolError(f"cannot encode Fetch response version {version}: {error}") from error


def _encode_flexible(
    out: bytearray,
    version: int,
    topics: Sequence[FetchedTopic[Records]],
    node_endpoints: Sequence[NodeEndpoint],
) -> tuple[list[bytearray | Records], int]:
    chunks: list[bytearray | Records] = [out]
    total = 0
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
        for index, error, high_watermark, stable, start, aborted, replica, records, size, hints in partitions:
            if aborted is None:
                out += _RESULT_V12_PLAIN.pack(index, error, high_watermark, stable, start, 0, replica)
            else:
                out += _RESULT_V12.pack(index, error, high_watermark, stable, start)
                write_uvarint(out, len(aborted) + 1)
                for producer_id, first_offset in aborted:
                    out += _ABORTED_FLEXIBLE.pack(producer_id, first_offset, 0)
                out += _INT32.pack(replica)
            write_uvarint(out, size + 1)
            if size > 0:
                assert records is not None
                total += len(out) + size
                out = bytearray()
                chunks += (records, out)
            if hints is None:
                out.append(0)
            else:
                _write_hints(out, hints)
        out.append(0)
    if node_endpoints and version >= _NODE_ENDPOINTS_FROM:
        write_node_endpoints(out, node_endpoints)
    else:
        out.append(0)
    return chunks, total + len(out)


def _write_hints(out: bytearray, hints: FetchHints) -> None:
    fields: list[bytes] = []
    if hints.diverging_epoch not in (None, (-1, -1)):
        epoch, end_offset = hints.diverging_epoch
        fields.append(_EPOCH_END_TAG.pack(0, 13, epoch, end_offset, 0))
    if hints.current_leader not in (None, NO_LEADER):
        leader_id, leader_epoch = hints.current_leader
        fields.append(_LEADER_TAG.pack(1, 9, leader_id, leader_epoch, 0))
    if hints.snapshot_id not in (None, (-1, -1)):
        end_offset, epoch = hints.snapshot_id
        fields.append(_SNAPSHOT_TAG.pack(2, 13, end_offset, epoch, 0))
    out.append(len(fields))
    for field in fields:
        out += field


def _encode_old(
    out: bytearray, version: int, topics: Sequence[FetchedTopic[Records]]
) -> tuple[list[bytearray | Records], int]:
    chunks: list[bytearray | Records] = [out]
    total = 0
    out += _INT32.pack(len(topics))
    for topic, partitions in topics:
        assert isinstance(topic, str)
        write_string(out, topic)
        out += _INT32.pack(len(partitions))
        for index, error, high_watermark, stable, start, aborted, replica, records, size, _ in partitions:
            count = -1 if aborted is None else len(aborted)
            if version >= 5:
                out += _RESULT_V5.pack(index, error, high_watermark, stable, start, count)
            else:
                out += _RESULT_V4.pack(index, error, high_watermark, stable, count)
            for producer_id, first_offset in aborted or ():
                out += _ABORTED.pack(producer_id, first_offset)
            if version >= 11:
                out += _INT32.pack(replica)
            out += _INT32.pack(size)
            if size > 0:
                assert records is not None
                total += len(out) + size
                out = bytearray()
                chunks += (records, out)
    return chunks, total + len(out)
