"""AddPartitionsToTxn and AddOffsetsToTxn: the order of checks, single and batched requests, verification."""

from __future__ import annotations

import pytest

from ruslo.machines.txns.states import TxnState
from ruslo.model.errors import ErrorCode
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ruslo.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from ruslo.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from ruslo.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from tests.support.txns.txn_bench import Cluster, TxnBench
from tests.support.txns.txn_client import (
    ORDERS_0,
    ORDERS_1,
    PARCELS_0,
    V1_ADD,
    V2_ADD,
    TxnClient,
    add_request,
    codes_of,
    init_request,
)

VERSIONS = [0, 1, 2, 3, 4, 5]
NOWHERE = TopicPartition("orders", 99)


def begun(*, tv2: bool = True) -> tuple[TxnBench, TxnClient]:
    bench = TxnBench()
    client = TxnClient(bench, tv2=tv2)
    client.init()
    return bench, client


def fenced(version: int) -> ErrorCode:
    return ErrorCode.INVALID_PRODUCER_EPOCH if version < 2 else ErrorCode.PRODUCER_FENCED


# -- adding --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_add(version: int) -> None:
    bench, client = begun()
    assert client.add(ORDERS_0, PARCELS_0, version=version) is ErrorCode.NONE
    assert bench.metadata().partitions == {ORDERS_0, PARCELS_0}
    assert bench.metadata().client_version == (2 if version >= 4 else 0)


def test_known_partitions_need_no_record() -> None:
    bench, client = begun()
    client.add(ORDERS_0, ORDERS_1)
    size = len(bench.log)
    assert client.add(ORDERS_1) is ErrorCode.NONE
    assert len(bench.log) == size


def test_completed_transaction_has_no_partitions() -> None:
    bench, client = begun()
    client.add(ORDERS_0)
    client.commit()
    bench.advance(1_000)
    assert client.add(ORDERS_0) is ErrorCode.NONE
    assert bench.states()[-1] == "Ongoing@1"
    assert bench.metadata().start_ms == bench.wall_ms


@pytest.mark.parametrize("version", VERSIONS)
def test_pending_transition_is_checked_first(version: int) -> None:
    bench, client = begun()
    bench.commits_immediately = False
    bench.send(init_request())
    assert client.add(ORDERS_0, epoch=99, version=version) is ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_producer_id_is_checked_before_the_epoch(version: int) -> None:
    bench, client = begun()
    client.producer_id += 1
    assert client.add(ORDERS_0, epoch=99, version=version) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert bench.states() == ["Empty@0"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("epoch", [0, 2])
def test_epoch(version: int, epoch: int) -> None:
    _, client = begun()
    client.init()
    assert client.add(ORDERS_0, epoch=epoch, version=version) is fenced(version)


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_id(version: int) -> None:
    client = TxnClient(TxnBench())
    assert client.add(ORDERS_0, version=version) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("version", VERSIONS)
def test_empty_id(version: int) -> None:
    client = TxnClient(TxnBench(), "")
    assert client.add(ORDERS_0, version=version) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("state", [TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT])
def test_prepared_end(state: TxnState) -> None:
    bench = TxnBench()
    bench.leaders_respond = False
    bench.start_at(state, 3, partitions=[ORDERS_0])
    request = add_request(V2_ADD, 500, 3, ORDERS_0)
    codes = codes_of(bench.call(request, AddPartitionsToTxnResponse, V2_ADD))
    assert codes == {ORDERS_0: ErrorCode.CONCURRENT_TRANSACTIONS}


@pytest.mark.parametrize("version", VERSIONS)
def test_one_unknown_partition_fails_all(version: int) -> None:
    bench, client = begun()
    request = add_request(version, client.producer_id, 0, ORDERS_0, NOWHERE, PARCELS_0)
    response = bench.call(request, AddPartitionsToTxnResponse, version, frozenset({"parcels"}))
    assert codes_of(response) == {
        ORDERS_0: ErrorCode.OPERATION_NOT_ATTEMPTED,
        NOWHERE: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        PARCELS_0: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    assert bench.states() == ["Empty@0"]


def test_partition_without_a_leader_can_be_added() -> None:
    bench = TxnBench(cluster=Cluster({"orders": [-1]}))
    client = TxnClient(bench)
    client.init()
    assert client.add(ORDERS_0) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("append_error", "expected"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
@pytest.mark.parametrize("version", [V1_ADD, V2_ADD])
def test_failed_append_changes_nothing(append_error: ErrorCode, expected: ErrorCode, version: int) -> None:
    bench, client = begun()
    bench.append_error = append_error
    assert client.add(ORDERS_0, version=version) is expected
    assert bench.state() is TxnState.EMPTY
    assert client.add(ORDERS_0, version=version) is ErrorCode.NONE


# -- several transactions in a request (v4-5) ----------------------------------------------------------------


def several(*requests: AddPartitionsToTxnRequest) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(transactions=[each for one in requests for each in one.transactions])


def _codes(topic: AddPartitionsToTxnTopicResult) -> list[int]:
    return [each.partition_error_code for each in topic.results_by_partition]


def test_each_transaction_of_a_request_has_its_own_result() -> None:
    bench = TxnBench()
    a, b = TxnClient(bench, "a"), TxnClient(bench, "b")
    a.init()
    b.init()
    b.add(ORDERS_0)
    request = several(
        add_request(5, a.producer_id, 0, ORDERS_0, transactional_id="a"),
        add_request(5, b.producer_id, 0, ORDERS_0, ORDERS_1, transactional_id="b", verify_only=True),
        add_request(5, 1, 0, PARCELS_0, transactional_id="c"),
    )
    response = bench.call(request, AddPartitionsToTxnResponse, 5)
    assert [
        (each.transactional_id, [code for topic in each.topic_results for code in _codes(topic)])
        for each in response.results_by_transaction
    ] == [
        ("a", [ErrorCode.NONE]),
        ("b", [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]),
        ("c", [ErrorCode.INVALID_PRODUCER_ID_MAPPING]),
    ]
    assert bench.state("a") is TxnState.ONGOING


def test_failed_append_affects_only_transactions_with_records() -> None:
    bench = TxnBench()
    a, b = TxnClient(bench, "a"), TxnClient(bench, "b")
    a.init()
    b.init()
    b.add(ORDERS_1)
    bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    request = several(
        add_request(5, a.producer_id, 0, ORDERS_0, transactional_id="a"),
        add_request(5, b.producer_id, 0, ORDERS_1, transactional_id="b", verify_only=True),
    )
    codes = codes_of(bench.call(request, AddPartitionsToTxnResponse, 5))
    assert codes == {ORDERS_0: ErrorCode.COORDINATOR_NOT_AVAILABLE, ORDERS_1: ErrorCode.NONE}


# -- verification --------------------------------------------------------------------------------------------


def test_verification() -> None:
    bench, client = begun(tv2=False)
    assert client.verify(ORDERS_0) is ErrorCode.TRANSACTION_ABORTABLE
    client.add(ORDERS_0)
    size = len(bench.log)
    assert client.verify(ORDERS_0) is ErrorCode.NONE
    assert client.verify(ORDERS_1) is ErrorCode.TRANSACTION_ABORTABLE
    assert client.verify(ORDERS_0, epoch=1) is ErrorCode.PRODUCER_FENCED
    assert len(bench.log) == size
    client.commit()
    assert client.verify(ORDERS_0) is ErrorCode.TRANSACTION_ABORTABLE


def test_verification_of_another_producer_or_id() -> None:
    _, client = begun()
    client.producer_id += 1
    assert client.verify(ORDERS_0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    client.transactional_id = "other"
    assert client.verify(ORDERS_0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_verification_ignores_a_pending_add() -> None:
    bench, client = begun(tv2=False)
    client.add(ORDERS_0)
    bench.commits_immediately = False
    bench.send(add_request(V1_ADD, client.producer_id, 0, ORDERS_1), V1_ADD)
    assert client.verify(ORDERS_0) is ErrorCode.NONE
    assert client.verify(ORDERS_1) is ErrorCode.TRANSACTION_ABORTABLE
    bench.commit()
    assert client.verify(ORDERS_1) is ErrorCode.NONE


def test_verification_of_a_prepared_end() -> None:
    bench, client = begun(tv2=False)
    client.add(ORDERS_0)
    bench.leaders_respond = False
    client.commit()
    assert client.verify(ORDERS_0) is ErrorCode.CONCURRENT_TRANSACTIONS


# -- offsets -------------------------------------------------------------------------------------------------


def test_offsets_add_the_partition_of_the_group() -> None:
    bench, client = begun(tv2=False)
    assert client.add_offsets("abc") is ErrorCode.NONE
    assert bench.metadata().partitions == {TopicPartition("__consumer_offsets", 3)}
    assert bench.metadata().client_version == 0
    client.add(ORDERS_0)
    client.commit()
    assert {each.partition for each in bench.markers} == {ORDERS_0, TopicPartition("__consumer_offsets", 3)}


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_offsets_of_a_fenced_producer(version: int) -> None:
    _, client = begun()
    client.epoch = 7
    assert client.add_offsets(version=version) is fenced(version)


def test_offsets_before_the_offsets_topic_exists() -> None:
    bench = TxnBench(cluster=Cluster({}, offsets_partitions=None))
    client = TxnClient(bench)
    client.init()
    assert client.add_offsets() is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_offsets_of_unknown_and_empty_ids() -> None:
    bench = TxnBench()
    unknown = AddOffsetsToTxnRequest(transactional_id="t", group_id="g")
    nameless = AddOffsetsToTxnRequest(transactional_id="", group_id="g")
    code = bench.call(unknown, AddOffsetsToTxnResponse).error_code
    assert code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert bench.call(nameless, AddOffsetsToTxnResponse).error_code == ErrorCode.INVALID_REQUEST


def test_failed_append_of_offsets() -> None:
    bench, client = begun(tv2=False)
    bench.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert client.add_offsets() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert client.add_offsets() is ErrorCode.NONE
