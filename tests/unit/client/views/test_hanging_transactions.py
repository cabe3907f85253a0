from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.transactions import COMPLETE_ABORT, ONGOING, PREPARE_COMMIT
from ruslo.client.views.hanging_transactions import find_hanging_transactions
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TRANSACTION_STATE_TOPIC, TopicPartition
from ruslo.protocol.messages.describe_producers_request import DescribeProducersRequest
from ruslo.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ruslo.protocol.messages.list_transactions_request import ListTransactionsRequest
from tests.support.brokers.scripted_broker import ReceivedRequest, ScriptedBroker, ScriptedResponse
from tests.support.txns.txn_script import TxnScript

T0 = TopicPartition("t", 0)
LAST_WRITE_MS = 1000
"""The last timestamp of every producer in the script."""


async def find(admin: Admin, written_before_ms: int = LAST_WRITE_MS + 1) -> list[tuple[int, str | None]]:
    found = await find_hanging_transactions(admin, [T0], written_before_ms=written_before_ms)
    return [(each.open.start_offset, each.transactional_id) for each in found]


def run_with(
    script: TxnScript,
    action: Callable[[Admin, ScriptedBroker], Awaitable[None]],
    api_timeout_ms: int = 10_000,
) -> None:
    async def run() -> None:
        async with (
            ScriptedBroker(script) as broker,
            Admin(f"127.0.0.1:{broker.port}", api_timeout_ms=api_timeout_ms) as admin,
        ):
            broker.topics = {"t": 1, TRANSACTION_STATE_TOPIC: 1}
            await action(admin, broker)

    asyncio.run(run())


def test_a_transaction_that_no_coordinator_lists_hangs() -> None:
    script = TxnScript()
    script.add("lives", 1, ONGOING, "t")
    script.add("ends", 2, PREPARE_COMMIT, "t")
    script.add("elsewhere", 3, ONGOING, "u")
    script.add("over", 4, COMPLETE_ABORT)
    script.add("another", 99, ONGOING, "t")
    for producer_id in range(5, 0, -1):
        script.open(producer_id, start_offset=producer_id * 10)
    script.open(6, start_offset=-1)

    async def action(admin: Admin, broker: ScriptedBroker) -> None:
        assert await find(admin) == [(30, "elsewhere"), (40, "over"), (50, None)]
        assert await find(admin, LAST_WRITE_MS) == [], "the last write is too recent"

    run_with(script, action)


def test_without_open_transactions_no_coordinator_is_queried() -> None:
    async def action(admin: Admin, broker: ScriptedBroker) -> None:
        assert await find(admin) == []
        assert broker.requests_of(ListTransactionsRequest.API_KEY) == []

    run_with(TxnScript(), action)


def test_transaction_that_ends_during_the_search_does_not_hang() -> None:
    script = TxnScript()
    script.add("x", 1, COMPLETE_ABORT)
    script.open(1, start_offset=0)

    def respond(received: ReceivedRequest) -> ScriptedResponse:
        del script.responses[ListTransactionsRequest]
        # The marker arrived, and the producer has started the next transaction.
        script.producers.clear()
        script.open(1, start_offset=2)
        return script(received)

    script.responses[ListTransactionsRequest] = respond

    async def action(admin: Admin, broker: ScriptedBroker) -> None:
        assert await find(admin) == []
        assert len(broker.requests_of(DescribeProducersRequest.API_KEY)) == 2

    run_with(script, action)


def test_id_that_expires_during_the_search() -> None:
    script = TxnScript()
    script.add("x", 1, ONGOING, "t")
    script.open(1, start_offset=0)

    def respond(received: ReceivedRequest) -> ScriptedResponse:
        del script.responses[DescribeTransactionsRequest]
        script.transactions.clear()
        return script(received)

    script.responses[DescribeTransactionsRequest] = respond

    async def action(admin: Admin, broker: ScriptedBroker) -> None:
        assert await find(admin) == [(0, "x")]

    run_with(script, action)


def test_an_unauthorized_id_is_an_error() -> None:
    script = TxnScript()
    script.add("x", 1, ONGOING, "t")
    script.transactions["x"].error_code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    script.open(1, start_offset=0)

    async def action(admin: Admin, broker: ScriptedBroker) -> None:
        with pytest.raises(KafkaError) as caught:
            await find(admin)
        assert caught.value.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    run_with(script, action)


def test_an_unavailable_coordinator_is_an_error() -> None:
    script = TxnScript()
    script.open(1, start_offset=0)

    async def action(admin: Admin, broker: ScriptedBroker) -> None:
        broker.topics[TRANSACTION_STATE_TOPIC] = -1
        with pytest.raises(KafkaError) as caught:
            await find(admin)
        assert caught.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert "partitions [0] of __transaction_state have no leader" in str(caught.value)
        del broker.topics[TRANSACTION_STATE_TOPIC]
        assert await find(admin) == [(0, None)], "this cluster has no transaction coordinator yet"

    run_with(script, action, api_timeout_ms=100)
