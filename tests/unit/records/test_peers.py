"""Batches compared with two other implementations: kafka-python and aiokafka."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from ruslo.records import batch as layout
from ruslo.records.batch import read_header
from ruslo.records.builder import build_batch
from ruslo.records.compression import Codec
from ruslo.records.reader import check_crc, read_records
from ruslo.records.record import Record
from tests.unit.records.examples import NOW, RECORDS

MANY = RECORDS + [Record(index, NOW + index, b"k%d" % index, b"value " * index) for index in range(4, 100)]


class TheirRecord(Protocol):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Iterable[tuple[str, bytes | None]]


def as_ours(record: TheirRecord) -> Record:
    return Record(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))


PEERS = [
    *(pytest.param(KafkaPythonBatch, KafkaPythonBuilder, codec) for codec in Codec if codec != Codec.SNAPPY),
    *(pytest.param(AiokafkaBatch, AiokafkaBuilder, codec) for codec in Codec),
]


@pytest.mark.parametrize(("batch_class", "builder_class", "codec"), PEERS)
def test_they_read_ours(batch_class: type, builder_class: type, codec: Codec) -> None:
    batch = batch_class(bytes(build_batch(MANY, codec=codec)))
    assert batch.validate_crc()
    assert [as_ours(record) for record in batch] == MANY


@pytest.mark.parametrize(("batch_class", "builder_class", "codec"), PEERS)
def test_we_read_theirs(batch_class: type, builder_class: type, codec: Codec) -> None:
    builder = builder_class(
        magic=2,
        compression_type=int(codec),
        is_transactional=1,
        producer_id=77,
        producer_epoch=3,
        base_sequence=12,
        batch_size=1 << 20,
    )
    for record in MANY:
        builder.append(
            record.offset,
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
        )
    theirs = bytes(builder.build())
    ours = build_batch(
        MANY,
        codec=codec,
        producer_id=77,
        producer_epoch=3,
        base_sequence=12,
        attributes=layout.TRANSACTIONAL,
    )
    assert check_crc(theirs)
    assert list(read_records(theirs)) == MANY
    header = read_header(theirs)
    if codec == Codec.NONE:
        assert theirs[layout.ATTRIBUTES_AT :] == ours[layout.ATTRIBUTES_AT :]
    assert header._replace(length=0, crc=0, leader_epoch=0) == read_header(ours)._replace(
        length=0, crc=0, leader_epoch=0
    )
