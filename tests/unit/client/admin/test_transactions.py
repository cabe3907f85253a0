from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.transactions import (
    COMPLETE_COMMIT,
    ONGOING,
    TransactionDescription,
    TransactionListing,
)
from ruslo.client.wire.idempotent import ProducerIdAndEpoch
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ruslo.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ruslo.protocol.messages.list_transactions_request import ListTransactionsRequest
from ruslo.protocol.messages.list_transactions_response import ListTransactionsResponse
from ruslo.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from ruslo.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from tests.support.brokers.scripted_broker import ReceivedRequest, ScriptedBroker, ScriptedResponse
from tests.support.txns.txn_script import TxnScript

T0 = TopicPartition("t", 0)


def run_with(script: TxnScript, action: Callable[[Admin, ScriptedBroker], Awaitable[None]]) -> None:
    async def run() -> None:
        async with ScriptedBroker(script) as broker, Admin(f"127.0.0.1:{broker.port}") as admin:
            broker.topics = {"t": 1}
            await action(admin, broker)

    asyncio.run(run())


def code_of(response: object) -> ErrorCode:
    assert isinstance(response, KafkaError)
    return response.code


async def test_transactions_of_all_brokers_are_listed_once() -> None:
    def of(*names: str) -> TxnScript:
        script = TxnScript()
        for number, name in enumerate(names):
            script.add(name, number, ONGOING)
        return script

    async with ScriptedBroker(of("b", "moving")) as one, ScriptedBroker(of("moving", "a")) as two:
        one.nodes = two.nodes = {1: one.port, 2: two.port}
        async with Admin(f"127.0.0.1:{one.port}") as admin:
            found = await admin.transactions.list(
                states=[ONGOING], producer_ids=[0, 1], longer_than_ms=5, pattern=".*"
            )
        (received,) = two.requests_of(ListTransactionsRequest.API_KEY)
    assert [each.transactional_id for each in found] == ["a", "b", "moving"]
    assert found[0] == TransactionListing("a", 1, ONGOING, 2)
    request = received.message
    assert isinstance(request, ListTransactionsRequest)
    assert (request.state_filters, request.producer_id_filters) == ([ONGOING], [0, 1])
    assert (request.duration_filter, request.transactional_id_pattern) == (5, ".*")


@pytest.mark.parametrize("newest", [0, 1])
def test_unsupported_filters_are_an_error(newest: int) -> None:
    script = TxnScript({ListTransactionsRequest.API_KEY: (0, newest)})
    script.add("x", 1, ONGOING)

    async def action(admin: Admin, broker: ScriptedBroker) -> None:
        assert len(await admin.transactions.list(states=[ONGOING])) == 1
        with pytest.raises(KafkaError) as caught:
            await admin.transactions.list(pattern="x")
        assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
        if newest < 1:
            with pytest.raises(KafkaError) as caught:
                await admin.transactions.list(longer_than_ms=0)
            assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
        else:
            assert len(await admin.transactions.list(longer_than_ms=0)) == 1

    run_with(script, action)


def test_a_loading_coordinator_is_retried() -> None:
    script = TxnScript()
    script.add("x", 1, ONGOING)
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]

    def respond(received: ReceivedRequest) -> ScriptedResponse:
        if codes:
            return ListTransactionsResponse(error_code=codes.pop())
        del script.responses[ListTransactionsRequest]
        return script(received)

    script.responses[ListTransactionsRequest] = respond

    async def action(admin: Admin, broker: ScriptedBroker) -> None:
        assert len(await admin.transactions.list()) == 1

    run_with(script, action)


def test_describe() -> None:
    script = TxnScript()
    script.add("open", 7, ONGOING, "u", "t")
    script.add("done", 8, COMPLETE_COMMIT)
    script.transactions["done"].transaction_start_time_ms = -1

    async def action(admin: Admin, broker: ScriptedBroker) -> None:
        found = await admin.transactions.describe(["open", "done", "absent", "open"])
        assert found["open"] == TransactionDescription(
            "open", 1, 7, 3, ONGOING, 60_000, 1000, (T0, TopicPartition("u", 0))
        )
        done = found["done"]
        assert isinstance(done, TransactionDescription)
        assert (done.start_ms, done.is_open, done.partitions) == (None, False, ())
        assert code_of(found["absent"]) == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert "'absent' does not exist" in str(found["absent"])
        (received,) = broker.requests_of(FindCoordinatorRequest.API_KEY)
        assert isinstance(received.message, FindCoordinatorRequest)
        assert received.message.key_type == 1

    run_with(script, action)


def test_fence_waits_until_the_abort_is_complete() -> None:
    script = TxnScript()
    codes = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS]

    def respond(received: ReceivedRequest) -> ScriptedResponse:
        assert isinstance(received.message, InitProducerIdRequest)
        assert received.version == 5, "version 6 is for two-phase commit and unstable"
        assert (received.message.producer_id, received.message.producer_epoch) == (-1, -1)
        assert (received.message.transactional_id, received.message.transaction_timeout_ms) == ("x", 1234)
        if codes:
            return InitProducerIdResponse(error_code=codes.pop())
        return InitProducerIdResponse(producer_id=7, producer_epoch=5)

    script.responses[InitProducerIdRequest] = respond

    async def action(admin: Admin, broker: ScriptedBroker) -> None:
        assert await admin.transactions.fence("x", 1234) == ProducerIdAndEpoch(7, 5)
        codes.append(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        with pytest.raises(KafkaError) as caught:
            await admin.transactions.fence("x", 1234)
        assert caught.value.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT

    run_with(script, action)


@pytest.mark.parametrize("newest", [1, 2])
def test_an_abort_marker(newest: int) -> None:
    script = TxnScript({WriteTxnMarkersRequest.API_KEY: (1, newest)})
    codes = [0, ErrorCode.NOT_LEADER_OR_FOLLOWER]

    def respond(received: ReceivedRequest) -> ScriptedResponse:
        assert received.version == newest
        partition = WritableTxnMarkerPartitionResult(partition_index=0, error_code=codes.pop())
        topic = WritableTxnMarkerTopicResult(name="t", partitions=[partition])
        return WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=7, topics=[topic])])

    script.responses[WriteTxnMarkersRequest] = respond

    async def action(admin: Admin, broker: ScriptedBroker) -> None:
        await admin.transactions.write_abort_marker(T0, ProducerIdAndEpoch(7, 3), 12)
        received = broker.requests_of(WriteTxnMarkersRequest.API_KEY)
        assert len(received) == 2, "the leader had moved"
        request = received[-1].message
        assert isinstance(request, WriteTxnMarkersRequest)
        (marker,) = request.markers
        assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 12)
        assert (marker.transaction_result, marker.transaction_version) == (False, 0)
        assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("t", [0])]
        codes.append(ErrorCode.INVALID_PRODUCER_EPOCH)
        with pytest.raises(KafkaError) as caught:
            await admin.transactions.write_abort_marker(T0, ProducerIdAndEpoch(7, 3), 12)
        assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert "t-0 rejects the marker of producer 7 with epoch 3" in str(caught.value)

    run_with(script, action)
