"""Hanging transactions: a late batch opens a transaction that no coordinator knows (KAFKA-14402).

Brokers accept it with ``transaction.partition.verification.enable=false``, as all did before Kafka 3.6.
"""

from __future__ import annotations

import asyncio
import time

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ruslo.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ruslo.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ruslo.protocol.messages.produce_response import ProduceResponse
from ruslo.records.batch import TRANSACTIONAL
from tests.support.brokers.live_node import batch_of
from tests.support.clients.raw_client import RawClient, connected
from tests.support.txns.txn_requests import V1_PRODUCE, find_txn_coordinator

UNVERIFIED = {"transaction.partition.verification.enable": "false"}
HOUR_MS = 3_600_000
CALL_TIMEOUT_S = 30


def hang(
    bootstrap: str,
    topic: str,
    partition: int = 0,
    *,
    transactional_id: str | None = None,
    age_ms: int = HOUR_MS,
) -> int:
    """Leave a transaction open that began ``age_ms`` ago; returns its producer id.

    Without a transactional id no coordinator knows the producer. With one its coordinator knows the producer,
    but not that the partition belongs to a transaction.
    """

    async def open_transaction() -> int:
        async with asyncio.timeout(CALL_TIMEOUT_S), connected(bootstrap) as client:
            producer_id, epoch = await _identity(client, transactional_id)
            batch = batch_of(
                b"hangs",
                timestamp=int(time.time() * 1000) - age_ms,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=0,
                attributes=TRANSACTIONAL,
            )
            request = ProduceRequest(
                acks=-1,
                timeout_ms=5000,
                transactional_id=transactional_id or "unknown",
                topic_data=[
                    TopicProduceData(
                        name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)]
                    )
                ],
            )
            response = await client.call(request, ProduceResponse, V1_PRODUCE)
            assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
            return producer_id

    return asyncio.run(open_transaction())


async def _identity(client: RawClient, transactional_id: str | None) -> tuple[int, int]:
    """A producer id and epoch; retries while the coordinators start."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    while True:
        code = 0
        if transactional_id is not None:
            code = (await find_txn_coordinator(client, transactional_id)).error_code
        if not code:
            response = await client.call(request, InitProducerIdResponse)
            code = response.error_code
            if not code:
                return response.producer_id, response.producer_epoch
        assert ErrorCode(code).retriable, ErrorCode(code).name
        await asyncio.sleep(0.05)
