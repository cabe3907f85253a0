from __future__ import annotations

import random

import pytest

from ruslo.model.errors import ProtocolError
from ruslo.protocol.coordinator_records import (
    GROUP_RECORDS,
    SHARE_RECORDS,
    TRANSACTION_RECORDS,
    CoordinatorRecords,
    UnknownRecordTypeError,
)
from ruslo.protocol.messages.group_metadata_key import GroupMetadataKey
from ruslo.protocol.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from ruslo.protocol.messages.offset_commit_key import OffsetCommitKey
from ruslo.protocol.messages.offset_commit_value import OffsetCommitValue
from ruslo.protocol.messages.transaction_log_key import TransactionLogKey
from ruslo.protocol.messages.transaction_log_value import TransactionLogValue
from tests.support.protocol.values import ValueMaker, message_versions

TOPICS = {
    "group_records": GROUP_RECORDS,
    "transaction_records": TRANSACTION_RECORDS,
    "share_records": SHARE_RECORDS,
}


def test_keys_start_with_their_type_and_values_with_their_version() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=2)
    encoded_key = GROUP_RECORDS.encode_key(key)
    assert encoded_key == b"\x00\x01" + b"\x00\x01g" + b"\x00\x01t" + b"\x00\x00\x00\x02"
    value = OffsetCommitValue(offset=9, metadata="m", commit_timestamp=4)
    encoded_value = GROUP_RECORDS.encode_value(value, 3)
    assert encoded_value[:2] == b"\x00\x03"
    assert GROUP_RECORDS.decode(encoded_key, encoded_value) == (key, value)
    assert GROUP_RECORDS.decode(memoryview(encoded_key), None) == (key, None)


def test_the_same_type_means_different_records_in_different_topics() -> None:
    key = TRANSACTION_RECORDS.encode_key(TransactionLogKey(transactional_id="x"))
    assert key == b"\x00\x00" + b"\x00\x01x"
    assert isinstance(TRANSACTION_RECORDS.decode_key(key), TransactionLogKey)
    value = TransactionLogValue(producer_id=5, next_producer_id=7)
    assert TRANSACTION_RECORDS.decode_value(0, TRANSACTION_RECORDS.encode_value(value, 1)) == (value, 1)


def test_every_record_and_version() -> None:
    keys = values = 0
    for message, version in message_versions():
        topic: CoordinatorRecords | None = TOPICS.get(message.table)
        if topic is None:
            continue
        record = ValueMaker(message, version, random.Random(keys + values)).random()
        if message.kind == "coordinator-key":
            assert topic.decode_key(topic.encode_key(record)) == record
            keys += 1
        else:
            assert topic.decode_value(message.key, topic.encode_value(record, version)) == (record, version)
            values += 1
    assert (keys, values) == (25, 34)


def test_records_of_other_topics_are_rejected() -> None:
    with pytest.raises(ProtocolError, match="not a key of __transaction_state"):
        TRANSACTION_RECORDS.encode_key(LegacyOffsetCommitKey())
    with pytest.raises(ProtocolError, match="not a value of __consumer_offsets"):
        GROUP_RECORDS.encode_value(GroupMetadataKey(), 0)


def test_unsupported_types_raise_unknown_record_type_error() -> None:
    with pytest.raises(
        UnknownRecordTypeError, match="type 99 of __consumer_offsets is not supported"
    ) as caught:
        GROUP_RECORDS.decode_key(b"\x00\x63rest")
    assert caught.value.record_type == 99


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x02", b"\x00\x02\x00\x05g", b"\x00\x02\x00\x01gx"])
def test_malformed_keys_are_rejected(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        GROUP_RECORDS.decode_key(data)


@pytest.mark.parametrize(
    "data", [b"", b"\x00\x09" + bytes(40), b"\xff\xff" + bytes(40), b"\x00\x03" + bytes(3)]
)
def test_malformed_values_are_rejected(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        GROUP_RECORDS.decode_value(1, data)
