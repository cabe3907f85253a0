"""The follower side of the hand-written Fetch codec equals the generated one."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruslo.model.errors import ProtocolError
from ruslo.protocol.fetch_codec import decode_fetch_request
from ruslo.protocol.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from ruslo.protocol.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from ruslo.protocol.replica_fetch_codec import (
    NO_DIVERGENCE,
    ReplicaPartitionFetch,
    decode_replica_fetch_response,
    encode_replica_fetch_request,
)
from tests.support.protocol.mutations import mutated
from tests.support.protocol.values import ValueMaker, all_messages

VERSIONS = range(15, 19)
TOPIC_ID = bytes(range(16))
HEAD, TAIL = b"frame before", b"frame behind"

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
topic_ids = st.binary(min_size=16, max_size=16)
listed_fetches = st.tuples(int32s, int32s, int64s, int32s, int64s, int32s)


@settings(max_examples=150, database=None, derandomize=True)
@given(
    state=st.tuples(int32s, int64s),
    limits=st.tuples(int32s, int32s, int32s),
    session=st.tuples(int32s, int32s),
    topics=st.lists(st.tuples(topic_ids, st.lists(listed_fetches, max_size=3)), max_size=3),
    forgotten=st.lists(st.tuples(topic_ids, st.lists(int32s, max_size=3)), max_size=2),
)
def test_requests_have_the_bytes_of_the_generated_codec_and_the_leader_decodes_them(
    state: tuple[int, int],
    limits: tuple[int, int, int],
    session: tuple[int, int],
    topics: list[tuple[bytes, list[ReplicaPartitionFetch]]],
    forgotten: list[tuple[bytes, list[int]]],
) -> None:
    out = bytearray(HEAD)
    encode_replica_fetch_request(
        out,
        replica_id=state[0],
        replica_epoch=state[1],
        max_wait_ms=limits[0],
        min_bytes=limits[1],
        max_bytes=limits[2],
        session_id=session[0],
        session_epoch=session[1],
        topics=topics,
        forgotten=forgotten,
    )
    expected = FetchRequest(
        replica_state=ReplicaState(replica_id=state[0], replica_epoch=state[1]),
        max_wait_ms=limits[0],
        min_bytes=limits[1],
        max_bytes=limits[2],
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            FetchTopic(
                topic_id=topic_id,
                partitions=[
                    FetchPartition(
                        partition=index,
                        current_leader_epoch=epoch,
                        fetch_offset=offset,
                        last_fetched_epoch=fetched_epoch,
                        log_start_offset=start,
                        partition_max_bytes=size,
                    )
                    for index, epoch, offset, fetched_epoch, start, size in listed
                ],
            )
            for topic_id, listed in topics
        ],
        forgotten_topics_data=[
            ForgottenTopic(topic_id=topic_id, partitions=indexes) for topic_id, indexes in forgotten
        ],
    )
    for version in VERSIONS:
        if state != (-1, -1):  # the default, which the generated codec omits
            assert out == HEAD + expected.to_bytes(version)
        body = decode_fetch_request(out, len(HEAD), len(out), version)
        assert (body.replica_id, body.replica_epoch, body.cluster_id) == (*state, None)
        assert [(topic, [row[:6] for row in rows]) for topic, rows in body.topics] == topics


def agree(body: bytes, version: int) -> bool:
    """Assert that both codecs decode the same; return whether the generated codec decodes."""
    frame = HEAD + body + TAIL
    end = len(HEAD) + len(body)
    try:
        expected = FetchResponse.from_bytes(body, version)
    except ProtocolError:
        # Fields that a follower does not use are skipped, so the hand-written codec may accept more.
        with contextlib.suppress(ProtocolError):
            decode_replica_fetch_response(frame, len(HEAD), end)
        return False
    decoded = decode_replica_fetch_response(frame, len(HEAD), end)
    assert (decoded.error_code, decoded.session_id) == (expected.error_code, expected.session_id)
    assert [(*row[:6], frame[row[6] : row[7]]) for row in decoded.partitions] == [
        (
            topic.topic_id,
            row.partition_index,
            row.error_code,
            row.high_watermark,
            row.log_start_offset,
            (row.diverging_epoch.epoch, row.diverging_epoch.end_offset),
            row.records or b"",
        )
        for topic in expected.responses
        for row in topic.partitions
    ]
    return True


def simple_response() -> FetchResponse:
    rows = [
        PartitionData(partition_index=3, high_watermark=77, log_start_offset=5, records=b"r" * 300),
        PartitionData(partition_index=4, diverging_epoch=EpochEndOffset(epoch=2, end_offset=9), records=None),
    ]
    return FetchResponse(session_id=9, responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=rows)])


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_the_common_response(buffer: type) -> None:
    body = simple_response().to_bytes(18)
    decoded = decode_replica_fetch_response(buffer(HEAD + body + TAIL), len(HEAD), len(HEAD) + len(body))
    assert decoded.session_id == 9
    first, second = decoded.partitions
    assert first[:6] == (TOPIC_ID, 3, 0, 77, 5, NO_DIVERGENCE)
    assert first[7] - first[6] == 300
    assert second[5] == (2, 9)
    assert second[6] == second[7]


@settings(max_examples=150, database=None, derandomize=True)
@given(version=st.sampled_from(VERSIONS), source=st.randoms(use_true_random=False))
def test_any_response_is_decoded_alike(version: int, source: random.Random) -> None:
    response = ValueMaker(all_messages()["FetchResponse"], version, source).random()
    assert agree(response.to_bytes(version), version)


def test_mutated_responses_are_decoded_alike_or_raise_only_protocol_errors() -> None:
    cases = understood = 0
    for version in VERSIONS:
        source = random.Random(version)
        maker = ValueMaker(all_messages()["FetchResponse"], version, source)
        seeds = [simple_response().to_bytes(version), FetchResponse().to_bytes(version)]
        seeds += [maker.random().to_bytes(version) for _ in range(4)]
        for _ in range(500):
            understood += agree(mutated(source, seeds), version)
            cases += 1
    assert 0.05 < understood / cases < 0.95
