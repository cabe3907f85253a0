"""The share coordinator as a kind of coordinator: how records are stored in ``__share_group_state``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ruslo.broker.coordinators.runtime.kind import CoordinatorKind
from ruslo.broker.coordinators.runtime.record_codec import EncodedRecord, decode_records, encode_record
from ruslo.broker.coordinators.runtime.shard import CoordinatorShard
from ruslo.machines.share_coordinator.events import PruneLog
from ruslo.machines.share_coordinator.records import ShareKey, ShareRecord, ShareSnapshot, ShareUpdate
from ruslo.machines.share_coordinator.responses import error_response
from ruslo.machines.share_coordinator.shard import ShareCoordinatorShard
from ruslo.machines.share_coordinator.state_batches import StateBatch
from ruslo.model.topics import SHARE_STATE_TOPIC
from ruslo.protocol.coordinator_records import SHARE_RECORDS
from ruslo.protocol.messages.share_snapshot_key import ShareSnapshotKey
from ruslo.protocol.messages.share_snapshot_value import ShareSnapshotValue
from ruslo.protocol.messages.share_snapshot_value import StateBatch as SnapshotBatch
from ruslo.protocol.messages.share_update_key import ShareUpdateKey
from ruslo.protocol.messages.share_update_value import ShareUpdateValue
from ruslo.protocol.messages.share_update_value import StateBatch as UpdateBatch
from ruslo.records.batch import BatchHeader

_VALUE_VERSION = 0


class ShareRecordCodec:
    def encode(self, record: ShareRecord) -> EncodedRecord:
        group_id, topic_id, partition = record.key
        if isinstance(record.value, ShareUpdate):
            update_key = ShareUpdateKey(group_id=group_id, topic_id=topic_id, partition=partition)
            return encode_record(update_key, _update_value(record.value), _VALUE_VERSION)
        key = ShareSnapshotKey(group_id=group_id, topic_id=topic_id, partition=partition)
        value = None if record.value is None else _snapshot_value(record.value)
        return encode_record(key, value, _VALUE_VERSION)

    def decode(self, header: BatchHeader, batch: memoryview) -> Iterator[tuple[int, ShareRecord]]:
        if header.is_control:
            return
        for offset, key, value, _ in decode_records(batch, SHARE_RECORDS):
            assert isinstance(key, ShareSnapshotKey | ShareUpdateKey)
            share = ShareKey(key.group_id, key.topic_id, key.partition)
            if isinstance(value, ShareSnapshotValue):
                yield offset, ShareRecord(share, _snapshot_of(value))
            elif isinstance(value, ShareUpdateValue):
                yield offset, ShareRecord(share, _update_of(value))
            elif isinstance(key, ShareSnapshotKey):
                yield offset, ShareRecord(share, None)

    def producer_of(self, record: ShareRecord) -> None:
        return None


def share_kind(
    new_machine: Callable[[], ShareCoordinatorShard],
    execute: Callable[[CoordinatorShard[ShareCoordinatorShard], PruneLog], None],
    *,
    commit_timeout_ms: int,
    partition_count: int = 1,
    load_buffer_bytes: int = 1 << 20,
    linger_ms: int = 0,
    compression: int = 0,
) -> CoordinatorKind[ShareCoordinatorShard]:
    return CoordinatorKind(
        topic=SHARE_STATE_TOPIC,
        content="share states",
        partition_count=partition_count,
        codec=ShareRecordCodec(),
        error_response=error_response,
        new_machine=new_machine,
        execute=execute,
        commit_timeout_ms=commit_timeout_ms,
        load_buffer_bytes=load_buffer_bytes,
        linger_ms=linger_ms,
        compression=compression,
    )


def _snapshot_value(snapshot: ShareSnapshot) -> ShareSnapshotValue:
    return ShareSnapshotValue(
        snapshot_epoch=snapshot.snapshot_epoch,
        state_epoch=snapshot.state_epoch,
        leader_epoch=snapshot.leader_epoch,
        start_offset=snapshot.start_offset,
        delivery_complete_count=snapshot.delivery_complete_count,
        create_timestamp=snapshot.create_ms,
        write_timestamp=snapshot.write_ms,
        state_batches=[
            SnapshotBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
            for first, last, state, count in snapshot.batches
        ],
    )


def _update_value(update: ShareUpdate) -> ShareUpdateValue:
    return ShareUpdateValue(
        snapshot_epoch=update.snapshot_epoch,
        leader_epoch=update.leader_epoch,
        start_offset=update.start_offset,
        delivery_complete_count=update.delivery_complete_count,
        state_batches=[
            UpdateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
            for first, last, state, count in update.batches
        ],
    )


def _snapshot_of(value: ShareSnapshotValue) -> ShareSnapshot:
    return ShareSnapshot(
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        value.create_timestamp,
        value.write_timestamp,
        _batches_of(value.state_batches),
    )


def _update_of(value: ShareUpdateValue) -> ShareUpdate:
    return ShareUpdate(
        value.snapshot_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        _batches_of(value.state_batches),
    )


def _batches_of(batches: Iterable[SnapshotBatch | UpdateBatch]) -> list[StateBatch]:
    return [
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in batches
    ]
