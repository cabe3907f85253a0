"""The ShareFetch response codec writes what the generated message reads."""

from __future__ import annotations

import pytest

from ruslo.model.errors import ProtocolError
from ruslo.protocol.messages.share_fetch_response import ShareFetchResponse
from ruslo.protocol.share_fetch_response_codec import FetchedSharePartition, encode_share_fetch_response

TOPIC = b"topic-id-16bytes"


def encoded(topics: dict[bytes, dict[int, FetchedSharePartition[bytes]]], **fields: object) -> bytes:
    out = bytearray(b"head")
    chunks, size = encode_share_fetch_response(out, 2, topics, **fields)  # type: ignore[arg-type]
    whole = b"".join(chunks)
    assert len(whole) == size
    assert whole[:4] == b"head"
    return whole[4:]


def test_the_generated_message_reads_and_writes_the_same_bytes() -> None:
    topics = {
        TOPIC: {
            3: FetchedSharePartition(records=b"records", size=7, acquired=[(5, 9, 1), (12, 12, 4)]),
            4: FetchedSharePartition[bytes](
                error_code=6,
                error_message="no leader",
                acknowledge_error_code=121,
                acknowledge_error_message="x" * 200,
                leader=(2, 7),
            ),
        },
        bytes(16): {},
    }
    data = encoded(
        topics,
        throttle_time_ms=5,
        error_code=0,
        lock_timeout_ms=30_000,
        node_endpoints=[(2, "host", 9092, None), (3, "other", 9093, "rack")],
    )
    message = ShareFetchResponse.from_bytes(data, 2)
    assert message.to_bytes(2) == data
    first, second = message.responses[0].partitions
    assert (first.partition_index, bytes(first.records or b"")) == (3, b"records")
    assert [
        (each.first_offset, each.last_offset, each.delivery_count) for each in first.acquired_records
    ] == [
        (5, 9, 1),
        (12, 12, 4),
    ]
    assert (second.error_code, second.error_message, second.records) == (6, "no leader", b"")
    assert (second.acknowledge_error_code, second.acknowledge_error_message) == (121, "x" * 200)
    assert (second.current_leader.leader_id, second.current_leader.leader_epoch) == (2, 7)
    assert (message.throttle_time_ms, message.acquisition_lock_timeout_ms) == (5, 30_000)
    assert [(each.node_id, each.host, each.port, each.rack) for each in message.node_endpoints] == [
        (2, "host", 9092, None),
        (3, "other", 9093, "rack"),
    ]


def test_an_error_of_the_whole_response() -> None:
    message = ShareFetchResponse.from_bytes(encoded({}, error_code=122, error_message="no session"), 2)
    assert (message.error_code, message.error_message, message.responses) == (122, "no session", [])


def test_what_cannot_be_encoded_leaves_the_buffer_as_it_was() -> None:
    out = bytearray(b"head")
    with pytest.raises(ProtocolError, match="version 0"):
        encode_share_fetch_response(out, 0, {})
    with pytest.raises(ProtocolError, match="cannot encode"):
        encode_share_fetch_response(out, 1, {TOPIC: {1 << 40: FetchedSharePartition[bytes]()}})
    assert out == b"head"
