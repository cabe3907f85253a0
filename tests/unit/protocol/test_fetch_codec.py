"""The hand-written Fetch codec equals the generated one."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruslo.model.errors import ProtocolError
from ruslo.protocol.fetch_codec import (
    FetchBody,
    FetchedPartition,
    FetchedTopic,
    FetchHints,
    decode_fetch_request,
    encode_fetch_response,
)
from ruslo.protocol.leader_hints import NodeEndpoint as Endpoint
from ruslo.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ruslo.protocol.messages.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from tests.support.protocol.mutations import mutated
from tests.support.protocol.values import ValueMaker, all_messages

VERSIONS = range(4, 19)
TOPIC_ID = bytes(range(16))
HEAD, TAIL = b"frame before", b"frame behind"

versions = st.sampled_from(VERSIONS)
int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
names = st.text(st.characters(codec="utf-8"), max_size=200)
topic_ids = st.binary(min_size=16, max_size=16)


def flat(request: FetchRequest, version: int) -> FetchBody:
    """A message of the generated codec as tuples of the hand-written codec."""
    from_state = version >= 15
    return FetchBody(
        request.cluster_id,
        request.replica_state.replica_id if from_state else request.replica_id,
        request.replica_state.replica_epoch,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
        [
            (
                topic.topic_id if version >= 13 else topic.topic,
                [
                    (
                        partition.partition,
                        partition.current_leader_epoch,
                        partition.fetch_offset,
                        partition.last_fetched_epoch,
                        partition.log_start_offset,
                        partition.partition_max_bytes,
                        partition.replica_directory_id,
                        partition.high_watermark,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
        [
            (topic.topic_id if version >= 13 else topic.topic, topic.partitions)
            for topic in request.forgotten_topics_data
        ],
        request.rack_id,
    )


def agree(body: bytes, version: int) -> bool:
    """Assert that both codecs decode the same or raise; return whether they decoded."""
    frame = HEAD + body + TAIL
    end = len(HEAD) + len(body)
    try:
        expected = FetchRequest.from_bytes(body, version)
    except ProtocolError:
        with pytest.raises(ProtocolError):
            decode_fetch_request(frame, len(HEAD), end, version)
        return False
    assert decode_fetch_request(frame, len(HEAD), end, version) == flat(expected, version)
    return True


def simple_request() -> FetchRequest:
    partition = FetchPartition(partition=3, fetch_offset=77, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="orders", topic_id=TOPIC_ID, partitions=[partition])
    return FetchRequest(max_wait_ms=500, min_bytes=1, topics=[topic])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_the_common_request(version: int, buffer: type) -> None:
    body = simple_request().to_bytes(version)
    decoded = decode_fetch_request(buffer(HEAD + body + TAIL), len(HEAD), len(HEAD) + len(body), version)
    assert decoded == flat(simple_request(), version)
    assert decoded.replica_id == -1
    assert decoded.topics[0][0] == (TOPIC_ID if version >= 13 else "orders")


@settings(max_examples=400, database=None, derandomize=True)
@given(version=versions, source=st.randoms(use_true_random=False))
def test_any_request_is_decoded_alike(version: int, source: random.Random) -> None:
    request = ValueMaker(all_messages()["FetchRequest"], version, source).random()
    assert agree(request.to_bytes(version), version)


def test_mutated_requests_are_decoded_alike_or_rejected_by_both() -> None:
    cases = understood = 0
    for version in VERSIONS:
        source = random.Random(version)
        maker = ValueMaker(all_messages()["FetchRequest"], version, source)
        seeds = [simple_request().to_bytes(version), FetchRequest().to_bytes(version)]
        seeds += [maker.nulls().to_bytes(version), *(maker.random().to_bytes(version) for _ in range(4))]
        for _ in range(700):
            understood += agree(mutated(source, seeds), version)
            cases += 1
    assert 0.05 < understood / cases < 0.9


@pytest.mark.parametrize("version", [3, 19, -1])
def test_other_versions_are_rejected(version: int) -> None:
    with pytest.raises(ProtocolError, match="no version"):
        decode_fetch_request(bytes(100), 0, 100, version)
    with pytest.raises(ProtocolError, match="no version"):
        encode_fetch_response(bytearray(), version, [])


def test_a_frame_cannot_end_past_its_buffer() -> None:
    body = simple_request().to_bytes(12)
    with pytest.raises(ProtocolError, match="expected"):
        decode_fetch_request(body, 0, len(body) + 1, 12)


class FileSlice:
    """A stand-in for records that are not in memory."""

    def __init__(self, data: bytes) -> None:
        self.data = data


pairs = st.one_of(st.none(), st.just((-1, -1)), st.tuples(int32s, int32s))
hint_sets = st.one_of(st.none(), st.builds(FetchHints, pairs, pairs, pairs))


@st.composite
def fetched_partitions(draw: st.DrawFn) -> FetchedPartition[FileSlice]:
    records = draw(st.one_of(st.none(), st.binary(max_size=40), st.just(b"r" * 200)))
    return (
        draw(int32s),
        draw(int16s),
        draw(int64s),
        draw(int64s),
        draw(int64s),
        draw(st.one_of(st.none(), st.lists(st.tuples(int64s, int64s), max_size=3))),
        draw(int32s),
        None if records is None else FileSlice(records),
        -1 if records is None else len(records),
        draw(hint_sets),
    )


@settings(max_examples=400, database=None, derandomize=True)
@given(
    version=versions,
    topics=st.lists(st.tuples(names, topic_ids, st.lists(fetched_partitions(), max_size=3)), max_size=3),
    throttle=int32s,
    error_code=int16s,
    session_id=int32s,
    endpoints=st.lists(st.tuples(int32s, names, int32s, st.one_of(st.none(), names)), max_size=2),
)
def test_responses_have_the_bytes_of_the_generated_codec(
    version: int,
    topics: list[tuple[str, bytes, list[FetchedPartition[FileSlice]]]],
    throttle: int,
    error_code: int,
    session_id: int,
    endpoints: list[Endpoint],
) -> None:
    fetched: list[FetchedTopic[FileSlice]] = [
        (topic_id if version >= 13 else name, partitions) for name, topic_id, partitions in topics
    ]
    out = bytearray(HEAD)
    chunks, total = encode_fetch_response(
        out,
        version,
        fetched,
        throttle_time_ms=throttle,
        error_code=error_code,
        session_id=session_id,
        node_endpoints=endpoints,
    )
    assert chunks[0] is out
    sent = b"".join(chunk.data if isinstance(chunk, FileSlice) else chunk for chunk in chunks)
    expected = FetchResponse(
        throttle_time_ms=throttle,
        error_code=error_code,
        session_id=session_id if version >= 7 else 0,
        responses=[generated_topic(topic, partitions, version) for topic, partitions in fetched],
        node_endpoints=[
            NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in (endpoints if version >= 16 else ())
        ],
    )
    assert sent == HEAD + expected.to_bytes(version)
    assert total == len(sent)
    slices_sent = [row[7] for _, rows in fetched for row in rows if row[8] > 0]
    assert [chunk for chunk in chunks if isinstance(chunk, FileSlice)] == slices_sent


def test_a_response_that_does_not_fit_leaves_the_output_unchanged() -> None:
    for version in (4, 12, 18):
        out = bytearray(b"before")
        topic = TOPIC_ID if version >= 13 else "t"
        with pytest.raises(ProtocolError, match="cannot encode"):
            encode_fetch_response(out, version, [(topic, [(2**31, 0, 0, 0, 0, None, -1, None, 0, None)])])
        assert out == b"before"


def generated_topic(
    topic: str | bytes, partitions: Sequence[FetchedPartition[FileSlice]], version: int
) -> FetchableTopicResponse:
    name, topic_id = (topic, bytes(16)) if isinstance(topic, str) else ("", topic)
    rows = []
    for index, error, high_watermark, stable, start, aborted, replica, records, _, hints in partitions:
        transactions = None
        if aborted is not None:
            transactions = [AbortedTransaction(producer_id=one, first_offset=first) for one, first in aborted]
        row = PartitionData(
            partition_index=index,
            error_code=error,
            high_watermark=high_watermark,
            last_stable_offset=stable,
            log_start_offset=start,
            aborted_transactions=transactions,
            preferred_read_replica=replica if version >= 11 else -1,
            records=None if records is None else records.data,
        )
        if hints is not None and version >= 12:
            if hints.diverging_epoch is not None:
                epoch, end_offset = hints.diverging_epoch
                row.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
            if hints.current_leader is not None:
                leader_id, leader_epoch = hints.current_leader
                row.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
            if hints.snapshot_id is not None:
                end_offset, epoch = hints.snapshot_id
                row.snapshot_id = SnapshotId(end_offset=end_offset, epoch=epoch)
        rows.append(row)
    return FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=rows)
