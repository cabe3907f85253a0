"""Transaction markers: targets, retries, and what completes or stops a transaction's end."""

from __future__ import annotations

import pytest

from ruslo.machines.machine import TimerFired
from ruslo.machines.txns.events import MarkersResult
from ruslo.machines.txns.states import TxnState
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import TopicPartition
from tests.support.txns.txn_bench import Cluster, TxnBench, default_cluster, markers_of
from tests.support.txns.txn_client import ORDERS_0, ORDERS_1, PARCELS_0, TxnClient

PARCELS_1 = TopicPartition("parcels", 1)
RETRY_MS = 100


def ending(*partitions: TopicPartition, commit: bool = True, tv2: bool = True) -> TxnBench:
    """The end is decided, and the leaders have not responded yet."""
    bench = TxnBench()
    client = TxnClient(bench, tv2=tv2)
    client.init()
    client.add(*partitions)
    bench.leaders_respond = False
    client.ended(client.send_end(commit=commit))
    return bench


def targets(bench: TxnBench) -> dict[int, set[TopicPartition]]:
    return {send.node: {each.partition for each in markers_of(send)} for send in bench.sends}


def test_one_request_for_each_leader() -> None:
    bench = ending(ORDERS_0, ORDERS_1, PARCELS_0, PARCELS_1)
    assert targets(bench) == {1: {ORDERS_0}, 2: {ORDERS_1, PARCELS_0}, 3: {PARCELS_1}}
    assert len(bench.sends) == 3


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize(("tv2", "epoch", "version"), [(True, 1, 2), (False, 0, 0)])
def test_content_of_a_marker(commit: bool, tv2: bool, epoch: int, version: int) -> None:
    bench = ending(ORDERS_0, commit=commit, tv2=tv2)
    bench.respond_to_markers()
    (marker,) = bench.markers
    assert (marker.producer_id, marker.epoch) == (bench.metadata().producer_id, epoch)
    assert marker.commits is commit
    assert marker.coordinator_epoch == bench.coordinator_epoch
    assert marker.transaction_version == version


def test_decisions_committed_together_share_requests() -> None:
    bench = TxnBench()
    clients = [TxnClient(bench, name) for name in "abc"]
    for client in clients:
        client.init()
        client.add(ORDERS_0, ORDERS_1)
    bench.leaders_respond = bench.commits_immediately = False
    for client in clients:
        client.send_end(commit=True)
    bench.commit()
    assert [(send.node, len(send.markers)) for send in bench.sends] == [(1, 3), (2, 3)]
    bench.respond_to_markers()
    bench.respond_to_markers()
    assert len(bench.uncommitted) == 1, "completions share a batch, too"
    bench.commit()
    assert {bench.state(name) for name in "abc"} == {TxnState.COMPLETE_COMMIT}


def test_completed_when_the_last_partition_has_its_marker() -> None:
    bench = ending(ORDERS_0, ORDERS_1)
    bench.respond_to_markers()
    assert bench.states()[-1] == "PrepareCommit@1"
    bench.respond_to_markers()
    assert bench.states()[-1] == "CompleteCommit@1"


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_error_is_retried_after_the_backoff(code: ErrorCode) -> None:
    bench = ending(ORDERS_1, PARCELS_0)
    bench.respond_to_markers(lambda marker: code if marker.partition == PARCELS_0 else ErrorCode.NONE)
    assert bench.sends == []
    bench.advance(RETRY_MS - 1)
    assert bench.sends == []
    bench.advance(1)
    assert targets(bench) == {2: {PARCELS_0}}, "the other partition has its marker"
    bench.respond_to_markers()
    assert bench.state() is TxnState.COMPLETE_COMMIT


def test_lost_connection_is_retried() -> None:
    bench = ending(ORDERS_0)
    bench.lose_markers()
    bench.advance(RETRY_MS)
    assert targets(bench) == {1: {ORDERS_0}}


def test_partitions_missing_in_a_response_are_retried() -> None:
    bench = ending(ORDERS_1, PARCELS_0)
    send = bench.sends.pop()
    bench.run(MarkersResult(send.send_id, {}))
    bench.advance(RETRY_MS)
    assert targets(bench) == {2: {ORDERS_1, PARCELS_0}}


def test_second_response_to_a_request_is_ignored() -> None:
    bench = ending(ORDERS_0)
    send = bench.sends[0]
    bench.respond_to_markers(ErrorCode.REQUEST_TIMED_OUT)
    bench.run(MarkersResult(send.send_id, None))
    bench.advance(RETRY_MS)
    assert len(bench.sends) == 1


def test_retry_goes_to_the_new_leader_at_once() -> None:
    bench = ending(ORDERS_0)
    bench.respond_to_markers(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    cluster = default_cluster()
    cluster.leaders["orders"] = [3, 2, 1, 2]
    bench.change_cluster(cluster)
    assert targets(bench) == {3: {ORDERS_0}}
    bench.advance(RETRY_MS)
    assert len(bench.sends) == 1, "the retry timer has no work left"


def test_cluster_change_does_not_repeat_markers_in_flight() -> None:
    bench = ending(ORDERS_0)
    bench.change_cluster(default_cluster())
    assert len(bench.sends) == 1


def test_partition_without_a_leader_waits_for_one() -> None:
    bench = TxnBench(cluster=Cluster({"orders": [1, -1]}))
    client = TxnClient(bench)
    client.init()
    client.add(ORDERS_0, ORDERS_1)
    client.commit()
    assert bench.state() is TxnState.PREPARE_COMMIT
    bench.advance(10 * RETRY_MS)
    assert [each.partition for each in bench.markers] == [ORDERS_0]
    bench.change_cluster(Cluster({"orders": [1, 2]}))
    assert bench.state() is TxnState.COMPLETE_COMMIT


def test_deleted_topic_needs_no_marker() -> None:
    bench = ending(ORDERS_0, PARCELS_0)
    bench.respond_to_markers()
    bench.respond_to_markers(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    bench.change_cluster(Cluster({"orders": [1]}))
    assert bench.state() is TxnState.COMPLETE_COMMIT
    assert [each.partition for each in bench.markers] == [ORDERS_0]


def test_transaction_whose_topics_are_all_deleted_completes() -> None:
    bench = TxnBench()
    client = TxnClient(bench)
    client.init()
    client.add(ORDERS_0)
    bench.change_cluster(Cluster({}))
    client.abort()
    assert bench.state() is TxnState.COMPLETE_ABORT
    assert bench.markers == []


def test_partition_that_knows_a_newer_producer_epoch_needs_no_marker() -> None:
    bench = ending(ORDERS_0, ORDERS_1)
    bench.respond_to_markers(ErrorCode.INVALID_PRODUCER_EPOCH)
    assert bench.rejected == ["t"]
    assert bench.state() is TxnState.PREPARE_COMMIT
    bench.respond_to_markers()
    assert bench.state() is TxnState.COMPLETE_COMMIT
    assert [each.partition for each in bench.markers] == [ORDERS_1]


def test_fenced_markers_stop_until_the_shard_is_reloaded() -> None:
    bench = ending(ORDERS_0, ORDERS_1)
    bench.respond_to_markers(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    assert bench.rejected == ["t"]
    bench.respond_to_markers(ErrorCode.REQUEST_TIMED_OUT)
    bench.advance(10 * RETRY_MS)
    bench.change_cluster(default_cluster())
    assert bench.sends == []
    assert bench.state() is TxnState.PREPARE_COMMIT
    assert TxnClient(bench).init() is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.leaders_respond = True
    bench.reload()
    assert bench.state() is TxnState.COMPLETE_COMMIT
    assert {each.coordinator_epoch for each in bench.markers} == {bench.coordinator_epoch}


def test_other_transactions_of_the_request_continue_when_one_is_fenced() -> None:
    bench = TxnBench()
    a, b = TxnClient(bench, "a"), TxnClient(bench, "b")
    for client in (a, b):
        client.init()
        client.add(ORDERS_0)
    bench.commits_immediately = bench.leaders_respond = False
    a.send_end(commit=True)
    b.send_end(commit=True)
    bench.commit()
    bench.commits_immediately = True
    fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    bench.respond_to_markers(lambda marker: fenced if marker.producer_id == a.producer_id else ErrorCode.NONE)
    assert bench.state("a") is TxnState.PREPARE_COMMIT
    assert bench.state("b") is TxnState.COMPLETE_COMMIT


@pytest.mark.parametrize("code", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR])
def test_completion_that_failed_to_append_is_retried(code: ErrorCode) -> None:
    bench = ending(ORDERS_0)
    bench.append_error = code
    bench.respond_to_markers()
    assert bench.state() is TxnState.PREPARE_COMMIT
    assert TxnClient(bench).init() is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.advance(RETRY_MS)
    assert bench.state() is TxnState.COMPLETE_COMMIT
    assert len(bench.markers) == 1, "markers are not sent again"


def test_no_timer_remains() -> None:
    bench = ending(ORDERS_0)
    bench.respond_to_markers()
    bench.run(TimerFired())
    assert bench.sends == []
