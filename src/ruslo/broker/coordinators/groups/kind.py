"""The group coordinator as a kind of coordinator: how its records are stored in ``__consumer_offsets``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ruslo.broker.coordinators.runtime.kind import ADAPTIVE_LINGER_MS, CoordinatorKind
from ruslo.broker.coordinators.runtime.record_codec import EncodedRecord, decode_records, encode_record
from ruslo.broker.coordinators.runtime.shard import CoordinatorShard
from ruslo.machines.groups.errors import error_response
from ruslo.machines.groups.events import GroupQuery
from ruslo.machines.groups.records import EndTxnMarker, GroupRecord, Producer
from ruslo.machines.groups.shard import GroupShard
from ruslo.model.topics import GROUP_OFFSETS_TOPIC
from ruslo.protocol.coordinator_records import GROUP_RECORDS
from ruslo.records.batch import BatchHeader
from ruslo.storage.producer_replay import read_marker

_BASE_SEQUENCE = 0
"""The base sequence that Kafka's group coordinator writes, although its batches have no producer id."""


class GroupRecordCodec:
    def encode(self, record: GroupRecord) -> EncodedRecord:
        return encode_record(record.key, record.value, record.version)

    def decode(
        self, header: BatchHeader, batch: memoryview
    ) -> Iterator[tuple[int, GroupRecord | EndTxnMarker]]:
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None:
                yield header.base_offset, EndTxnMarker(marker.producer_id, marker.committed)
            return
        producer = Producer(header.producer_id, header.producer_epoch) if header.is_transactional else None
        for offset, key, value, version in decode_records(batch, GROUP_RECORDS):
            yield offset, GroupRecord(key, value, version, producer)

    def producer_of(self, record: GroupRecord) -> Producer | None:
        return record.producer


def group_kind(
    new_machine: Callable[[], GroupShard],
    execute: Callable[[CoordinatorShard[GroupShard], GroupQuery], None],
    *,
    commit_timeout_ms: int,
    partition_count: int = 1,
    load_buffer_bytes: int = 1 << 20,
    linger_ms: int = ADAPTIVE_LINGER_MS,
    compression: int = 0,
) -> CoordinatorKind[GroupShard]:
    return CoordinatorKind(
        topic=GROUP_OFFSETS_TOPIC,
        content="groups",
        partition_count=partition_count,
        codec=GroupRecordCodec(),
        error_response=error_response,
        new_machine=new_machine,
        execute=execute,
        commit_timeout_ms=commit_timeout_ms,
        load_buffer_bytes=load_buffer_bytes,
        linger_ms=linger_ms,
        compression=compression,
        base_sequence=_BASE_SEQUENCE,
    )
