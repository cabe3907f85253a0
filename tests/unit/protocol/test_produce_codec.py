"""The hand-written Produce codec equals the generated one."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruslo.model.errors import ProtocolError
from ruslo.protocol import produce_codec
from ruslo.protocol.leader_hints import NodeEndpoint as Endpoint
from ruslo.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ruslo.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from ruslo.protocol.produce_codec import (
    PartitionResult,
    TopicResult,
    decode_produce_request,
    encode_produce_response,
)
from tests.support.protocol.mutations import mutated
from tests.support.protocol.values import ValueMaker, all_messages

VERSIONS = range(produce_codec.MIN_VERSION, produce_codec.MAX_VERSION + 1)
TOPIC_ID = bytes(range(16))
HEAD, TAIL = b"frame before", b"frame behind"

versions = st.sampled_from(VERSIONS)
int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
names = st.text(st.characters(codec="utf-8"), max_size=200)
topic_ids = st.binary(min_size=16, max_size=16)
some = st.one_of(st.none(), names)


def simple_request(records: bytes | None = b"r" * 300, name: str = "orders") -> ProduceRequest:
    partition = PartitionProduceData(index=3, records=records)
    topic = TopicProduceData(name=name, topic_id=TOPIC_ID, partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_the_common_request_becomes_positions(version: int, buffer: type) -> None:
    body = simple_request().to_bytes(version)
    frame = buffer(HEAD + body + TAIL)
    decoded = decode_produce_request(frame, len(HEAD), len(HEAD) + len(body), version)
    transactional_id, acks, timeout_ms, [(topic, [(index, start, end)])] = decoded
    assert (transactional_id, acks, timeout_ms, index) == (None, -1, 30_000, 3)
    assert topic == (TOPIC_ID if version >= 13 else "orders")
    assert bytes(frame[start:end]) == b"r" * 300


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_382, 16_383, 16_384])
def test_records_of_any_length(version: int, size: int) -> None:
    body = simple_request(records=b"r" * size).to_bytes(version)
    _, _, _, [(_, [(_, start, end)])] = decode_produce_request(body, 0, len(body), version)
    assert body[start:end] == b"r" * size


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("length", [0, 1, 126, 127, 128, 300])
def test_a_transactional_id_of_any_length(version: int, length: int) -> None:
    request = simple_request()
    request.transactional_id = "i" * length
    body = request.to_bytes(version)
    assert agree(body, version)
    for size in range(length + 3):
        assert not agree(body[:size], version)


@pytest.mark.parametrize("version", VERSIONS)
def test_null_records_and_long_names_take_the_general_path(version: int) -> None:
    body = simple_request(records=None, name="n" * 200).to_bytes(version)
    topic = TOPIC_ID if version >= 13 else "n" * 200
    assert decode_produce_request(body, 0, len(body), version)[3] == [(topic, [(3, -1, -1)])]


def agree(body: bytes, version: int) -> bool:
    """Assert that both codecs decode the same or raise; return whether they decoded."""
    frame = HEAD + body + TAIL
    end = len(HEAD) + len(body)
    try:
        expected = ProduceRequest.from_bytes(body, version)
    except ProtocolError:
        with pytest.raises(ProtocolError):
            decode_produce_request(frame, len(HEAD), end, version)
        return False
    transactional_id, acks, timeout_ms, topics = decode_produce_request(frame, len(HEAD), end, version)
    assert (transactional_id, acks, timeout_ms) == (
        expected.transactional_id,
        expected.acks,
        expected.timeout_ms,
    )
    assert len(topics) == len(expected.topic_data)
    for (topic, partitions), expected_topic in zip(topics, expected.topic_data, strict=True):
        assert topic == (expected_topic.topic_id if version >= 13 else expected_topic.name)
        for (index, start, stop), partition in zip(partitions, expected_topic.partition_data, strict=True):
            assert index == partition.index
            assert (None if start < 0 else frame[start:stop]) == partition.records
    return True


@settings(max_examples=300, database=None, derandomize=True)
@given(version=versions, source=st.randoms(use_true_random=False))
def test_any_request_is_decoded_alike(version: int, source: random.Random) -> None:
    request = ValueMaker(all_messages()["ProduceRequest"], version, source).random()
    assert agree(request.to_bytes(version), version)


def test_mutated_requests_are_decoded_alike_or_rejected_by_both() -> None:
    cases = understood = 0
    for version in VERSIONS:
        source = random.Random(version)
        maker = ValueMaker(all_messages()["ProduceRequest"], version, source)
        seeds = [simple_request(records=b"r" * 40).to_bytes(version)] * 4
        seeds += [maker.nulls().to_bytes(version), maker.random().to_bytes(version)]
        for _ in range(700):
            understood += agree(mutated(source, seeds), version)
            cases += 1
    assert 0.05 < understood / cases < 0.9


@pytest.mark.parametrize("version", [2, 14, -1])
def test_other_versions_are_rejected(version: int) -> None:
    with pytest.raises(ProtocolError, match="no version"):
        decode_produce_request(bytes(100), 0, 100, version)
    with pytest.raises(ProtocolError, match="no version"):
        encode_produce_response(bytearray(), version, [])


def test_a_frame_cannot_end_past_its_buffer() -> None:
    body = simple_request().to_bytes(9)
    with pytest.raises(ProtocolError, match="expected"):
        decode_produce_request(body, 0, len(body) + 1, 9)


partition_results = st.tuples(
    int32s,
    int16s,
    int64s,
    int64s,
    int64s,
    st.one_of(st.none(), st.lists(st.tuples(int32s, some), max_size=3)),
    some,
    st.one_of(st.none(), st.just((-1, -1)), st.tuples(int32s, int32s)),
)
endpoint_lists = st.lists(st.tuples(int32s, names, int32s, some), max_size=2)


@settings(max_examples=400, database=None, derandomize=True)
@given(
    version=versions,
    topics=st.lists(
        st.tuples(names, st.binary(min_size=16, max_size=16), st.lists(partition_results, max_size=3)),
        max_size=3,
    ),
    throttle=int32s,
    endpoints=endpoint_lists,
)
def test_responses_have_the_bytes_of_the_generated_codec(
    version: int,
    topics: list[tuple[str, bytes, list[PartitionResult]]],
    throttle: int,
    endpoints: list[Endpoint],
) -> None:
    results: list[TopicResult] = [
        (topic_id if version >= 13 else name, partitions) for name, topic_id, partitions in topics
    ]
    out = bytearray(b"header")
    encode_produce_response(out, version, results, throttle, endpoints)
    assert out == b"header" + generated(version, results, throttle, endpoints).to_bytes(version)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_common_response_has_the_bytes_of_the_generated_codec(version: int) -> None:
    for name in ("orders", "n" * 126, "n" * 127):
        results: list[TopicResult] = [
            (TOPIC_ID if version >= 13 else name, [(3, 0, 1_234_567, -1, 5, None, None, None)])
        ]
        out = bytearray()
        encode_produce_response(out, version, results)
        assert out == generated(version, results, 0, []).to_bytes(version)


def test_a_response_that_does_not_fit_leaves_the_output_unchanged() -> None:
    out = bytearray(b"before")
    for version in (3, 9, 13):
        topic = TOPIC_ID if version >= 13 else "t"
        with pytest.raises(ProtocolError, match="cannot encode"):
            encode_produce_response(out, version, [(topic, [(2**31, 0, 0, -1, 0, None, None, None)])])
        assert out == b"before"


def generated(
    version: int, results: list[TopicResult], throttle: int, endpoints: list[Endpoint]
) -> ProduceResponse:
    hints = version >= 10
    responses = []
    for topic, partitions in results:
        rows = [
            PartitionProduceResponse(
                index=index,
                error_code=error,
                base_offset=base,
                log_append_time_ms=append_time,
                log_start_offset=start,
                record_errors=[
                    BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=text)
                    for at, text in record_errors or ()
                ],
                error_message=message,
                current_leader=LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
                if leader is not None and hints
                else LeaderIdAndEpoch(),
            )
            for index, error, base, append_time, start, record_errors, message, leader in partitions
        ]
        name, topic_id = (topic, bytes(16)) if isinstance(topic, str) else ("", topic)
        responses.append(TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=rows))
    nodes = [
        NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
        for node_id, host, port, rack in (endpoints if hints else ())
    ]
    return ProduceResponse(responses=responses, throttle_time_ms=throttle, node_endpoints=nodes)
