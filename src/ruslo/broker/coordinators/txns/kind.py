"""The transaction coordinator as a kind of coordinator: how records are stored in ``__transaction_state``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ruslo.broker.coordinators.runtime.kind import CoordinatorKind
from ruslo.broker.coordinators.runtime.record_codec import EncodedRecord, decode_records
from ruslo.broker.coordinators.runtime.shard import CoordinatorShard
from ruslo.machines.txns.errors import error_response
from ruslo.machines.txns.events import TxnEffect
from ruslo.machines.txns.record_bytes import record_bytes
from ruslo.machines.txns.records import TxnRecord, state_of
from ruslo.machines.txns.shard import TxnShard
from ruslo.model.topics import TRANSACTION_STATE_TOPIC
from ruslo.protocol.coordinator_records import TRANSACTION_RECORDS
from ruslo.protocol.messages.transaction_log_key import TransactionLogKey
from ruslo.protocol.messages.transaction_log_value import TransactionLogValue
from ruslo.records.batch import BatchHeader


class TxnRecordCodec:
    def encode(self, record: TxnRecord) -> EncodedRecord:
        return record_bytes(record)

    def decode(self, header: BatchHeader, batch: memoryview) -> Iterator[tuple[int, TxnRecord]]:
        if header.is_control:
            return
        for offset, key, value, version in decode_records(batch, TRANSACTION_RECORDS):
            assert isinstance(key, TransactionLogKey)
            if value is None:
                yield offset, TxnRecord(key.transactional_id, None)
            else:
                assert isinstance(value, TransactionLogValue)
                yield offset, TxnRecord(key.transactional_id, state_of(value), version)

    def producer_of(self, record: TxnRecord) -> None:
        return None


def txn_kind(
    new_machine: Callable[[], TxnShard],
    execute: Callable[[CoordinatorShard[TxnShard], TxnEffect], None],
    *,
    commit_timeout_ms: int,
    partition_count: int = 1,
    load_buffer_bytes: int = 1 << 20,
) -> CoordinatorKind[TxnShard]:
    return CoordinatorKind(
        topic=TRANSACTION_STATE_TOPIC,
        content="transactions",
        partition_count=partition_count,
        codec=TxnRecordCodec(),
        error_response=error_response,
        new_machine=new_machine,
        execute=execute,
        commit_timeout_ms=commit_timeout_ms,
        load_buffer_bytes=load_buffer_bytes,
        replays_when_committed=True,
        # The coordinator epoch of its markers is the leader epoch; it must fence earlier coordinators.
        reloads_in_new_epoch=True,
    )
