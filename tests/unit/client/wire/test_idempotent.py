"""Idempotent batches: order, sequences, and retries after errors."""

from __future__ import annotations

import asyncio

import pytest

from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.idempotent import IdempotentSender, ProducerIdAndEpoch
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages.produce_request import ProduceRequest
from ruslo.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from ruslo.records.batch import BatchHeader, read_header
from ruslo.records.builder import build_batch
from ruslo.records.reader import read_records
from ruslo.records.record import Record
from tests.support.brokers.scripted_broker import ReceivedRequest, ScriptedBroker, ScriptedResponse

T0 = TopicPartition("t", 0)
IDENTITY = ProducerIdAndEpoch(7, 3)


def batches(count: int, records: int = 2) -> list[bytearray]:
    return [
        build_batch([Record(n, 1000, None, b"%d-%d" % (number, n)) for n in range(records)])
        for number in range(count)
    ]


class Log:
    """A log that appends like a leader: it accepts any first sequence, drops duplicates and rejects gaps."""

    def __init__(self) -> None:
        self.stored: list[BatchHeader] = []
        self.values: list[bytes | None] = []

    def append(self, received: ReceivedRequest) -> ErrorCode:
        header, records = produced(received)
        if any(header.base_sequence == known.base_sequence for known in self.stored[-5:]):
            return ErrorCode.NONE
        if self.stored and header.base_sequence != sum(known.count for known in self.stored):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self.stored.append(header)
        self.values += [record.value for record in read_records(records)]
        return ErrorCode.NONE


def produced(received: ReceivedRequest) -> tuple[BatchHeader, bytes]:
    assert isinstance(received.message, ProduceRequest)
    (topic,) = received.message.topic_data
    (partition,) = topic.partition_data
    assert partition.records is not None
    return read_header(partition.records), bytes(partition.records)


def response(code: ErrorCode) -> ProduceResponse:
    partition = PartitionProduceResponse(index=0, error_code=code, base_offset=0)
    return ProduceResponse(
        responses=[TopicProduceResponse(topic_id=b"t".ljust(16, b"_"), partition_responses=[partition])]
    )


def send(
    broker: ScriptedBroker, sent: list[bytearray], transactional_id: str | None = None, first: int = 1
) -> None:
    """Send in two calls, the first with ``first`` batches."""

    async def scenario() -> None:
        async with broker, Cluster(f"127.0.0.1:{broker.port}", api_timeout_ms=2000) as cluster:
            broker.topics["t"] = 1
            sender = IdempotentSender(cluster, IDENTITY, transactional_id=transactional_id)
            await sender.send({T0: sent[:first]})
            await sender.send({T0: sent[first:]})

    asyncio.run(scenario())


def scripted(log: Log, faults: dict[int, ErrorCode | None]) -> ScriptedBroker:
    """``faults`` by the number of the Produce request: an error instead of storing, or a lost connection
    after storing."""
    requests = iter(range(10_000))

    def script(received: ReceivedRequest) -> ScriptedResponse:
        if received.api_key != ProduceRequest.API_KEY:
            raise KeyError
        number = next(requests)
        if number in faults:
            fault = faults[number]
            if fault is not None:
                return response(fault)
            log.append(received)
            return None
        return response(log.append(received))

    return ScriptedBroker(script)


def test_sequences_continue_from_one_send_to_the_next() -> None:
    log = Log()
    send(scripted(log, {}), batches(4, records=3))
    assert [(h.producer_id, h.producer_epoch, h.base_sequence) for h in log.stored] == [
        (7, 3, 0),
        (7, 3, 3),
        (7, 3, 6),
        (7, 3, 9),
    ]
    assert not any(header.is_transactional for header in log.stored)


def test_transactional_batches_and_requests_are_marked() -> None:
    log = Log()
    broker = scripted(log, {})
    send(broker, batches(2), transactional_id="id")
    assert all(header.is_transactional for header in log.stored)
    requests = [received.message for received in broker.requests_of(ProduceRequest.API_KEY)]
    assert [request.transactional_id for request in requests if isinstance(request, ProduceRequest)] == [
        "id",
        "id",
    ]


@pytest.mark.parametrize("fault_at", range(12))
@pytest.mark.parametrize("fault", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, None])
@pytest.mark.parametrize("first", [1, 6])
def test_after_an_error_every_batch_is_stored_once_and_in_order(
    fault_at: int, fault: ErrorCode | None, first: int
) -> None:
    log = Log()
    sent = batches(12)
    expected = [record.value for batch in sent for record in read_records(bytes(batch))]
    send(scripted(log, {fault_at: fault}), sent, first=first)
    assert log.values == expected


def test_a_permanent_error_is_raised() -> None:
    with pytest.raises(KafkaError) as raised:
        send(scripted(Log(), {3: ErrorCode.MESSAGE_TOO_LARGE}), batches(6))
    assert raised.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_an_unexplained_sequence_gap_is_raised() -> None:
    with pytest.raises(KafkaError) as raised:
        send(scripted(Log(), {2: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}), batches(3))
    assert raised.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
