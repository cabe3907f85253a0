from __future__ import annotations

import random

import pytest

from ruslo.model.errors import ProtocolError
from ruslo.protocol.messages.create_topics_request import CreateTopicsRequest
from ruslo.protocol.messages.no_op_record import NoOpRecord
from ruslo.protocol.messages.offset_commit_value import OffsetCommitValue
from ruslo.protocol.messages.partition_record import PartitionRecord
from ruslo.protocol.messages.topic_record import TopicRecord
from ruslo.protocol.metadata_records import decode_metadata_record, encode_metadata_record
from tests.support.protocol.mutations import mutated
from tests.support.protocol.values import ValueMaker, message_versions

TOPIC_ID = bytes(range(16))


def test_the_frame() -> None:
    value = encode_metadata_record(TopicRecord(name="foo", topic_id=TOPIC_ID), 0)
    assert value == b"\x01\x02\x00" + b"\x04foo" + TOPIC_ID + b"\x00"
    assert decode_metadata_record(value) == (TopicRecord(name="foo", topic_id=TOPIC_ID), 0)
    assert encode_metadata_record(PartitionRecord(), 2)[:3] == b"\x01\x03\x02"


def test_every_record_and_version() -> None:
    count = 0
    for message, version in message_versions():
        if message.kind == "metadata":
            record = ValueMaker(message, version, random.Random(count)).random()
            value = memoryview(encode_metadata_record(record, version))
            assert decode_metadata_record(value) == (record, version)
            count += 1
    assert count == 37


@pytest.mark.parametrize("record", [CreateTopicsRequest(), OffsetCommitValue()])
def test_other_messages_are_rejected(record: CreateTopicsRequest | OffsetCommitValue) -> None:
    with pytest.raises(ProtocolError, match="is not a metadata record"):
        encode_metadata_record(record, 0)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "malformed metadata record"),
        (b"\x01\x14", "malformed metadata record"),
        (b"\x00\x14\x00\x00", "frame version 0"),
        (b"\x01\x0d\x00\x00", "unknown metadata record type 13"),
        (b"\x01\x14\x01\x00", "no version 1"),
        (b"\x01\x14\x00\x00\x00", "1 bytes follow the NoOpRecord"),
    ],
)
def test_malformed_records_are_rejected(value: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_metadata_record(value)


def test_mutated_records_raise_only_protocol_errors() -> None:
    source = random.Random(3)
    seeds = [
        encode_metadata_record(PartitionRecord(topic_id=TOPIC_ID, replicas=[1, 2], isr=[1]), 2),
        encode_metadata_record(NoOpRecord(), 0),
    ]
    rejected = 0
    for _ in range(3000):
        try:
            decode_metadata_record(mutated(source, seeds))
        except ProtocolError:
            rejected += 1
    assert 0 < rejected < 3000
