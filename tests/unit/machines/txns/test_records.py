"""Records in the transaction log: which fields and tags each state has."""

from __future__ import annotations

import pytest

from ruslo.machines.txns.records import state_of
from ruslo.machines.txns.settings import TxnSettings
from ruslo.model.errors import CorruptLogError, ErrorCode
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages.end_txn_response import EndTxnResponse
from ruslo.protocol.messages.transaction_log_value import TransactionLogValue
from tests.support.machines.coordinator_bench import WALL_MS
from tests.support.txns.txn_bench import FIRST_PRODUCER_ID, TxnBench
from tests.support.txns.txn_client import ORDERS_0, ORDERS_1, PARCELS_0, TxnClient, end_request


def values(bench: TxnBench) -> list[TransactionLogValue]:
    found = [record.value for record in bench.records()]
    return [value for value in found if value is not None]


def test_records_of_a_version_2_transaction() -> None:
    bench = TxnBench()
    client = TxnClient(bench)
    client.init(timeout_ms=30_000)
    bench.advance(10)
    client.add(PARCELS_0, ORDERS_1)
    bench.advance(10)
    client.add(ORDERS_0)
    bench.advance(10)
    bench.leaders_respond = False
    client.commit()
    bench.advance(10)
    while bench.sends:
        bench.respond_to_markers()
    assert bench.states() == ["Empty@0", "Ongoing@0", "Ongoing@0", "PrepareCommit@1", "CompleteCommit@1"]
    empty, first, second, prepared, complete = values(bench)

    assert empty.transaction_partitions is None
    assert empty.transaction_start_timestamp_ms == -1
    assert empty.transaction_last_update_timestamp_ms == WALL_MS
    assert empty.transaction_timeout_ms == 30_000

    assert [(each.topic, each.partition_ids) for each in first.transaction_partitions or ()] == [
        ("orders", [1]),
        ("parcels", [0]),
    ]
    assert first.transaction_start_timestamp_ms == WALL_MS + 10
    assert [(each.topic, each.partition_ids) for each in second.transaction_partitions or ()] == [
        ("orders", [0, 1]),
        ("parcels", [0]),
    ]
    assert second.transaction_start_timestamp_ms == WALL_MS + 10
    assert second.transaction_last_update_timestamp_ms == WALL_MS + 20

    assert prepared.transaction_partitions == second.transaction_partitions
    assert complete.transaction_partitions == []
    assert complete.transaction_start_timestamp_ms == WALL_MS + 10
    began_ms = WALL_MS + 30
    assert complete.transaction_last_update_timestamp_ms == began_ms, (
        "the time of the decision, not of the completion"
    )

    assert [value.client_transaction_version for value in values(bench)] == [0, 2, 2, 2, 2]
    assert {value.previous_producer_id for value in values(bench)} == {FIRST_PRODUCER_ID}
    assert {value.next_producer_id for value in values(bench)} == {-1}
    assert {value.next_producer_epoch for value in values(bench)} == {-1}
    assert {record.version for record in bench.records()} == {1}


def test_version_1_transaction_keeps_its_epoch_and_has_no_version_tag() -> None:
    bench = TxnBench()
    client = TxnClient(bench, tv2=False)
    client.init()
    client.add(ORDERS_0)
    client.abort()
    assert bench.states() == ["Empty@0", "Ongoing@0", "PrepareAbort@0", "CompleteAbort@0"]
    assert {value.client_transaction_version for value in values(bench)} == {0}
    assert {value.previous_producer_id for value in values(bench)} == {FIRST_PRODUCER_ID}


def test_empty_state_after_a_version_2_transaction_keeps_the_tag() -> None:
    bench = TxnBench()
    client = TxnClient(bench)
    client.init()
    client.add(ORDERS_0)
    client.commit()
    client.init()
    assert bench.states()[-1] == "Empty@2"
    last = values(bench)[-1]
    assert last.client_transaction_version == 2
    assert last.transaction_partitions is None
    assert last.transaction_start_timestamp_ms == -1


def test_empty_abort_starts_when_it_is_aborted() -> None:
    bench = TxnBench()
    client = TxnClient(bench)
    client.init()
    bench.advance(5)
    client.abort()
    prepared, complete = values(bench)[1:]
    assert prepared.transaction_partitions == []
    assert prepared.transaction_start_timestamp_ms == WALL_MS + 5
    assert complete.transaction_start_timestamp_ms == WALL_MS + 5


def test_transaction_version_0_writes_no_tags() -> None:
    bench = TxnBench(TxnSettings(transaction_version=0))
    client = TxnClient(bench, tv2=False)
    client.init()
    client.add(ORDERS_0)
    client.commit()
    assert {record.version for record in bench.records()} == {0}
    assert bench.states()[-1] == "CompleteCommit@0"


def test_transaction_version_0_rejects_version_2_requests() -> None:
    bench = TxnBench(TxnSettings(transaction_version=0))
    client = TxnClient(bench)
    client.init()
    assert client.add(ORDERS_0) is ErrorCode.UNSUPPORTED_VERSION
    request = end_request(client.producer_id, client.epoch, commit=False)
    assert bench.call(request, EndTxnResponse).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert bench.states() == ["Empty@0"]
    assert client.add(ORDERS_0, version=3) is ErrorCode.NONE, "no transition is pending"


def test_transaction_version_1_does_not_mark_fences_as_version_2() -> None:
    bench = TxnBench(TxnSettings(transaction_version=1))
    client = TxnClient(bench, tv2=False)
    client.init()
    client.add(ORDERS_0)
    assert TxnClient(bench).init() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.states()[-2:] == ["PrepareAbort@1", "CompleteAbort@1"]
    assert values(bench)[-1].client_transaction_version == 0
    assert bench.markers[-1].transaction_version == 0


def test_partitions_of_a_value() -> None:
    bench = TxnBench()
    client = TxnClient(bench)
    client.init()
    client.add(ORDERS_0, ORDERS_1)
    metadata = state_of(values(bench)[-1])
    assert metadata.partitions == {TopicPartition("orders", 0), TopicPartition("orders", 1)}
    assert metadata == bench.metadata()


@pytest.mark.parametrize("status", [6, 7, 8, -1])
def test_transient_states_are_rejected(status: int) -> None:
    with pytest.raises(CorruptLogError, match="never written"):
        state_of(TransactionLogValue(transaction_status=status))
