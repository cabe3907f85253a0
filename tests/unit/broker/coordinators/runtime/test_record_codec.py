from __future__ import annotations

import logging

import pytest

from ruslo.broker.coordinators.runtime.record_codec import (
    decode_records,
    encode_batch,
    encode_record,
    size_of,
)
from ruslo.machines.groups.records import Producer, classic_group_tombstone, offset_record
from ruslo.model.errors import ProtocolError
from ruslo.protocol.coordinator_records import GROUP_RECORDS
from ruslo.records.batch import read_header
from ruslo.records.builder import build_batch
from ruslo.records.record import Record

NOW = 1_700_000_000_000
COMMIT = offset_record("g", "t", 3, offset=42, leader_epoch=7, metadata="note", commit_ms=NOW)
ENCODED = encode_record(COMMIT.key, COMMIT.value, COMMIT.version)


def test_records_are_decoded_as_they_were_encoded() -> None:
    other = classic_group_tombstone("other")
    batch = encode_batch([ENCODED, encode_record(other.key, None, 0)], NOW)
    first, second = decode_records(batch, GROUP_RECORDS)
    assert first == (0, COMMIT.key, COMMIT.value, COMMIT.version)
    assert second == (1, other.key, None, 0)


def test_batch_equals_that_of_kafkas_coordinator() -> None:
    header = read_header(encode_batch([ENCODED], NOW, compression=3, base_sequence=0))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, 0)
    assert (header.codec, header.is_transactional, header.base_timestamp) == (3, False, NOW)


def test_transactional_batch_names_its_producer() -> None:
    header = read_header(encode_batch([ENCODED], NOW, base_sequence=0, producer=Producer(9, 2)))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 0)
    assert header.is_transactional
    assert not header.is_control


def test_the_size_is_never_underestimated() -> None:
    encoded = [ENCODED] * 200
    assert len(encode_batch(encoded, NOW)) <= size_of(encoded) + 61


@pytest.mark.parametrize("record_type", [18, 99])
def test_unsupported_record_types_are_skipped(record_type: int, caplog: pytest.LogCaptureFixture) -> None:
    key, value = ENCODED
    unknown = record_type.to_bytes(2, "big") + b"whatever"
    batch = build_batch([Record(0, NOW, unknown, b"?"), Record(1, NOW, key, value)])
    with caplog.at_level(logging.WARNING):
        assert list(decode_records(batch, GROUP_RECORDS)) == [(1, COMMIT.key, COMMIT.value, COMMIT.version)]
    assert f"type {record_type}" in caplog.text


def test_unknown_value_version_is_an_error() -> None:
    key, value = ENCODED
    assert value is not None
    newer = (77).to_bytes(2, "big") + value[2:]
    with pytest.raises(ProtocolError, match="offset 0"):
        list(decode_records(build_batch([Record(0, NOW, key, newer)]), GROUP_RECORDS))


def test_record_without_a_key_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="no key"):
        list(decode_records(build_batch([Record(0, NOW, None, b"v")]), GROUP_RECORDS))
