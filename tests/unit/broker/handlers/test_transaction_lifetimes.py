"""Expiration of unused transactional ids and producers."""

from __future__ import annotations

from pathlib import Path

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ruslo.protocol.messages.describe_transactions_response import DescribeTransactionsResponse
from tests.support.brokers.live_node import LiveNode, live_node, until
from tests.support.clients.raw_client import RawClient, connected
from tests.support.txns.txn_requests import TxnProducer

FEW = {"transaction.state.log.num.partitions": "2"}


async def described(client: RawClient, transactional_id: str) -> tuple[ErrorCode, str]:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    (state,) = (await client.call(request, DescribeTransactionsResponse)).transaction_states
    return ErrorCode(state.error_code), state.transaction_state


async def write(node: LiveNode, client: RawClient, transactional_id: str) -> TxnProducer:
    """A producer with an open transaction that has written to topic t."""
    producer = TxnProducer(node, client, transactional_id)
    assert await producer.init() is ErrorCode.NONE
    await producer.send(b"a")
    return producer


async def test_an_unused_transactional_id_expires_but_not_with_an_open_transaction(tmp_path: Path) -> None:
    properties = FEW | {
        "transactional.id.expiration.ms": "50",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "20",
    }
    async with live_node(tmp_path, properties) as node, connected(node.bootstrap) as client:
        await node.create("t")
        unused, _ = await write(node, client, "unused"), await write(node, client, "busy")
        assert await unused.end(commit=True) is ErrorCode.NONE
        while (await described(client, "unused"))[0] is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            pass
        assert await described(client, "busy") == (ErrorCode.NONE, "Ongoing")
        assert await unused.write(b"b") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        before = unused.producer_id
        assert await unused.init() is ErrorCode.NONE
        assert (unused.producer_id != before, unused.epoch) == (True, 0)


async def test_idle_producer_expires_but_not_with_an_open_transaction(tmp_path: Path) -> None:
    properties = FEW | {
        "producer.id.expiration.ms": "50",
        "producer.id.expiration.check.interval.ms": "10",
    }
    async with live_node(tmp_path, properties) as node, connected(node.bootstrap) as client:
        await node.create("t")
        silent, busy = await write(node, client, "silent"), await write(node, client, "busy")
        assert await silent.end(commit=True) is ErrorCode.NONE
        producers = node.partition().log.producers
        await until(lambda: set(producers.entries) == {busy.producer_id})
        await silent.send(b"the new epoch begins with sequence 0")
        assert await silent.end(commit=True) is ErrorCode.NONE
        assert await busy.end(commit=True) is ErrorCode.NONE


async def test_producer_expiration_is_dynamic(tmp_path: Path) -> None:
    properties = FEW | {"producer.id.expiration.check.interval.ms": "10"}
    async with live_node(tmp_path, properties) as node, connected(node.bootstrap) as client:
        await node.create("t")
        silent = await write(node, client, "silent")
        assert await silent.end(commit=True) is ErrorCode.NONE
        producers = node.partition().log.producers
        assert silent.producer_id in producers.entries
        await node.alter_all_brokers(producer_id_expiration_ms="50")
        await until(lambda: not producers.entries)
