"""A shard as its driver sees it: loading, unloading, failed appends, delayed responses."""

from __future__ import annotations

import pytest

from ruslo.machines.machine import Instant, Loaded, Requested, Unloaded
from ruslo.machines.txns.cluster_view import NO_LEADER, NoCluster
from ruslo.machines.txns.events import MarkersResult, ProducerIdAllocated, RequestInfo
from ruslo.machines.txns.settings import TxnSettings
from ruslo.machines.txns.shard import TxnShard
from ruslo.machines.txns.states import TxnState
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.api_versions_request import ApiVersionsRequest
from ruslo.protocol.messages.end_txn_response import EndTxnResponse
from ruslo.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ruslo.protocol.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from tests.support.txns.txn_bench import Cluster, TxnBench, compile_pattern
from tests.support.txns.txn_client import ORDERS_0, ORDERS_1, TxnClient, end_request, init_request

# -- load ----------------------------------------------------------------------------------------------------

ZERO = Instant(0, 0)


def test_transactions_are_loaded_from_the_log() -> None:
    bench = TxnBench()
    client = TxnClient(bench)
    client.init()
    client.add(ORDERS_0)
    bench.reload()
    assert client.verify(ORDERS_0) is ErrorCode.NONE
    assert client.add(ORDERS_1) is ErrorCode.NONE
    assert client.commit() is ErrorCode.NONE
    assert {each.partition for each in bench.markers} == {ORDERS_0, ORDERS_1}


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("tv2", [True, False])
def test_prepared_transaction_is_completed_with_the_new_coordinator_epoch(commit: bool, tv2: bool) -> None:
    bench = TxnBench()
    client = TxnClient(bench, tv2=tv2)
    client.init()
    client.add(ORDERS_0, ORDERS_1)
    bench.leaders_respond = False
    client.ended(client.send_end(commit=commit))
    bench.respond_to_markers()
    bench.leaders_respond = True
    bench.reload()
    outcome = TxnState.COMPLETE_COMMIT if commit else TxnState.COMPLETE_ABORT
    assert bench.state() is outcome
    again = bench.markers[1:]
    assert {each.partition for each in again} == {ORDERS_0, ORDERS_1}, (
        "the new coordinator does not know which partitions have the marker"
    )
    assert {each.coordinator_epoch for each in again} == {bench.coordinator_epoch}
    assert {each.commits for each in bench.markers} == {commit}
    assert {each.epoch for each in bench.markers} == {client.epoch}


def test_requests_wait_for_the_completion_of_a_loaded_transaction() -> None:
    bench = TxnBench()
    bench.leaders_respond = False
    bench.start_at(TxnState.PREPARE_ABORT, 3, partitions=[ORDERS_0])
    assert TxnClient(bench).init() is ErrorCode.CONCURRENT_TRANSACTIONS
    response = bench.call(end_request(500, 3, commit=False), EndTxnResponse)
    assert response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(TxnState.PREPARE_COMMIT, TxnState.COMPLETE_COMMIT), (TxnState.PREPARE_ABORT, TxnState.COMPLETE_ABORT)],
)
def test_prepared_transaction_of_value_version_0_is_completed(status: TxnState, outcome: TxnState) -> None:
    bench = TxnBench()
    bench.put(
        "t",
        TransactionLogValue(
            producer_id=500,
            producer_epoch=3,
            transaction_timeout_ms=60_000,
            transaction_status=status,
            transaction_partitions=[PartitionsSchema(topic="orders", partition_ids=[0])],
        ),
        version=0,
    )
    bench.reload()
    assert bench.state() is outcome
    assert [(each.epoch, each.transaction_version) for each in bench.markers] == [(3, 0)]


def test_last_record_of_an_id_wins() -> None:
    bench = TxnBench()
    bench.start_at(TxnState.ONGOING, 3, partitions=[ORDERS_0])
    bench.start_at(TxnState.EMPTY, 4)
    assert bench.state() is TxnState.EMPTY
    assert bench.metadata().partitions == frozenset()
    assert bench.markers == []


def test_markers_wait_for_the_first_metadata() -> None:
    bench = TxnBench()
    bench.start_at(TxnState.ONGOING, 3, partitions=[ORDERS_0])
    client = TxnClient(bench)
    client.producer_id, client.epoch = 500, 3
    bench.shard.state.cluster = NoCluster()
    client.commit()
    bench.advance(1_000)
    assert bench.state() is TxnState.PREPARE_COMMIT
    bench.change_cluster(bench.cluster)
    assert bench.state() is TxnState.COMPLETE_COMMIT


def test_no_topic_counts_as_deleted_before_the_first_metadata() -> None:
    view = NoCluster()
    assert view.leader_of("orders", 0) == NO_LEADER
    assert view.offsets_partition_of("g") is None


# -- unload --------------------------------------------------------------------------------------------------


def test_requests_before_and_after_leading_are_rejected() -> None:
    shard = TxnShard(TxnSettings(), compile_pattern, Cluster({}))
    event = Requested("token", init_request(), RequestInfo(5))
    for _ in range(2):
        (reply,) = shard.handle(event, ZERO).replies
        assert isinstance(reply.message, KafkaError)
        assert reply.message.code is ErrorCode.NOT_COORDINATOR
        shard.handle(Loaded(1), ZERO)
        shard.handle(Unloaded(), ZERO)


def test_requests_waiting_for_a_producer_id_fail() -> None:
    bench = TxnBench()
    bench.ids_available = False
    token = bench.send(init_request())
    query = bench.allocations[0]
    bench.run(Unloaded())
    assert bench.response(token, InitProducerIdResponse).error_code == ErrorCode.NOT_COORDINATOR
    bench.run(ProducerIdAllocated(query.allocation, 77))
    assert bench.log == []


def test_requests_waiting_for_a_commit_fail() -> None:
    bench = TxnBench()
    bench.commits_immediately = False
    token = bench.send(init_request())
    bench.fail_uncommitted(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    bench.run(Unloaded())
    assert bench.response(token, InitProducerIdResponse).error_code == ErrorCode.NOT_COORDINATOR


def test_unloaded_shard_does_nothing() -> None:
    bench = TxnBench()
    client = TxnClient(bench)
    client.init()
    client.add(ORDERS_0)
    bench.leaders_respond = False
    client.commit()
    send = bench.sends.pop()
    size = len(bench.log)
    bench.run(Unloaded())
    assert bench.shard.deadline_ms() is None
    bench.run(MarkersResult(send.send_id, None))
    bench.change_cluster(bench.cluster)
    assert bench.sends == []
    assert len(bench.log) == size


def test_commit_event_after_the_unload() -> None:
    bench = TxnBench()
    client = TxnClient(bench)
    client.init()
    client.add(ORDERS_0)
    bench.commits_immediately = False
    client.send_end(commit=True)
    bench.run(Unloaded())
    bench.commit()
    assert bench.sends == []
    assert bench.markers == []


# -- writes --------------------------------------------------------------------------------------------------


def test_append_that_timed_out_may_be_read_by_the_next_coordinator() -> None:
    bench = TxnBench()
    client = TxnClient(bench)
    client.init()
    client.add(ORDERS_0)
    bench.commit_error = ErrorCode.REQUEST_TIMED_OUT
    assert client.commit() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.markers == [], "no marker was sent"
    bench.reload()
    assert bench.state() is TxnState.COMPLETE_COMMIT
    assert client.commit() is ErrorCode.NONE, "the retry gets the outcome"
    assert client.epoch == 1


def test_timed_out_commit_may_still_become_an_abort() -> None:
    bench = TxnBench()
    client = TxnClient(bench)
    client.init()
    client.add(ORDERS_0)
    bench.commit_error = ErrorCode.REQUEST_TIMED_OUT
    client.commit()
    assert client.abort() is ErrorCode.NONE
    assert bench.states()[-3:] == ["PrepareCommit@1", "PrepareAbort@1", "CompleteAbort@1"]
    assert [each.commits for each in bench.markers] == [False]


def test_settings_change_while_leading() -> None:
    bench = TxnBench()
    client = TxnClient(bench)
    client.init()
    bench.shard.change_settings(TxnSettings(max_timeout_ms=1_000))
    assert client.init(timeout_ms=1_001) is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_requests_of_other_apis_are_rejected() -> None:
    shard = TxnShard(TxnSettings(), compile_pattern)
    shard.handle(Loaded(1), ZERO)
    (reply,) = shard.handle(Requested("token", ApiVersionsRequest(), RequestInfo(0)), ZERO).replies
    assert isinstance(reply.message, KafkaError)
    assert reply.message.code is ErrorCode.UNSUPPORTED_VERSION
