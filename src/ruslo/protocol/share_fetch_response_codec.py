"""Frames ShareFetch responses, versions 1 and 2, around records that stay in their file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Generic, TypeVar

from ruslo.model.errors import ProtocolError
from ruslo.model.ids import Uuid
from ruslo.protocol.leader_hints import (
    NO_LEADER,
    LeaderAndEpoch,
    NodeEndpoint,
    write_compact_string,
    write_endpoints,
)
from ruslo.protocol.primitives import ENCODE_ERRORS, write_uvarint

MIN_VERSION = 1
MAX_VERSION = 2

Records = TypeVar("Records")


@dataclass(slots=True, eq=False)
class FetchedSharePartition(Generic[Records]):
    """The result for one share-partition: records, and what became of the acknowledgements."""

    error_code: int = 0
    error_message: str | None = None
    acknowledge_error_code: int = 0
    acknowledge_error_message: str | None = None
    leader: LeaderAndEpoch = NO_LEADER
    records: Records | None = None
    size: int = 0
    """The size of the records in bytes."""
    acquired: Sequence[tuple[int, int, int]] = ()
    """First offset, last offset, delivery count."""


_START = Struct(">ih")  # throttle time, error code
_INT32 = Struct(">i")
_RESULT = Struct(">ih")  # partition, error code
_INT16 = Struct(">h")
_LEADER = Struct(">iiB")
_ACQUIRED = Struct(">qqhB")


def encode_share_fetch_response(
    out: bytearray,
    version: int,
    topics: Mapping[Uuid, Mapping[int, FetchedSharePartition[Records]]],
    *,
    throttle_time_ms: int = 0,
    error_code: int = 0,
    error_message: str | None = None,
    lock_timeout_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> tuple[list[bytearray | Records], int]:
    """Frame the response body: the chunks to send, in order, and their total size in bytes.

    ``out`` may already have the length and header of the frame; it becomes the first chunk. A chunk that is
    not a bytearray of this function is the ``records`` of a partition; empty records are left out.
    """
    if not MIN_VERSION <= version <= MAX_VERSION:
        raise ProtocolError(
            f"ShareFetch has no version {version}; versions {MIN_VERSION} to {MAX_VERSION} exist"
        )
    begin = len(out)
    try:
        out += _START.pack(throttle_time_ms, error_code)
        write_compact_string(out, error_message)
        out += _INT32.pack(lock_timeout_ms)
        return _encode_topics(out, topics, node_endpoints)
    except ENCODE_ERRORS as error:
        del out[begin:]
        raise ProtocolError(f"cannot encode ShareFetch response version {version}: {error}") from error


def _encode_topics(
    out: bytearray,
    topics: Mapping[Uuid, Mapping[int, FetchedSharePartition[Records]]],
    node_endpoints: Sequence[NodeEndpoint],
) -> tuple[list[bytearray | Records], int]:
    chunks: list[bytearray | Records] = [out]
    total = 0
    write_uvarint(out, len(topics) + 1)
    for topic_id, partitions in topics.items():
        out += topic_id
        write_uvarint(out, len(partitions) + 1)
        for index, result in partitions.items():
            out += _RESULT.pack(index, result.error_code)
            write_compact_string(out, result.error_message)
            out += _INT16.pack(result.acknowledge_error_code)
            write_compact_string(out, result.acknowledge_error_message)
            out += _LEADER.pack(*result.leader, 0)
            write_uvarint(out, result.size + 1)
            if result.size:
                assert result.records is not None
                total += len(out) + result.size
                out = bytearray()
                chunks += (result.records, out)
            write_uvarint(out, len(result.acquired) + 1)
            for first, last, delivery_count in result.acquired:
                out += _ACQUIRED.pack(first, last, delivery_count, 0)
            out.append(0)
        out.append(0)
    write_endpoints(out, node_endpoints)
    out.append(0)
    return chunks, total + len(out)
