"""Many idle connections and very slow readers do not affect other clients."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator

import pytest

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ruslo.protocol.messages.fetch_response import FetchResponse
from ruslo.protocol.messages.metadata_request import MetadataRequest
from ruslo.records.builder import build_batch
from ruslo.records.record import Record
from ruslo.testing import EmbeddedBroker
from tests.support.clients.bystander import PlainSocket, Witness, resident_bytes
from tests.support.clients.raw_client import frame, request_bytes

IDLE_CONNECTIONS = 1000
LARGE = 60_000_000


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({"message.max.bytes": "70000000", "fetch.max.bytes": "200000000"}) as broker:
        yield broker


@pytest.fixture
def witness(broker: EmbeddedBroker) -> Iterator[Witness]:
    witness = Witness(broker.bootstrap)
    witness.check()
    yield witness
    witness.close()


def test_a_thousand_idle_connections(broker: EmbeddedBroker, witness: Witness) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < IDLE_CONNECTIONS + 200:
        pytest.skip(f"this process may open {hard} files; the test needs {IDLE_CONNECTIONS + 200}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, IDLE_CONNECTIONS + 200), hard))
    before = resident_bytes(broker.pid)
    idle: list[PlainSocket] = []
    try:
        for number in range(IDLE_CONNECTIONS):
            connection = PlainSocket(broker.bootstrap)
            idle.append(connection)
            if number % 2:
                # Half of them have sent requests.
                connection.send(frame(request_bytes(MetadataRequest(), 9)))
                connection.read_frame()
        for _ in range(5):
            witness.check()
        assert resident_bytes(broker.pid) - before < 50_000_000
        # Every one of them still works.
        for connection in idle:
            connection.send(frame(request_bytes(MetadataRequest(), 9)))
        for connection in idle:
            assert connection.read_frame()
    finally:
        for connection in idle:
            connection.close()
    witness.check()


def fetch_everything(client: PlainSocket) -> None:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=200_000_000)
    request = FetchRequest(max_bytes=200_000_000, topics=[FetchTopic(topic="large", partitions=[partition])])
    client.send(frame(request_bytes(request, 11)))


def test_a_slow_reader(broker: EmbeddedBroker, witness: Witness) -> None:
    witness.create("large")
    with PlainSocket(broker.bootstrap) as writer:
        # Ready-made batches of a size that needs no large receive buffer.
        batch = build_batch([Record(0, 1_700_000_000_000, None, b"x" * 1_000_000)])
        for _ in range(LARGE // 1_000_000):
            assert writer.produce("large", 0, batch)[0] is ErrorCode.NONE
    witness.check()
    before = resident_bytes(broker.pid)
    slow = [PlainSocket(broker.bootstrap) for _ in range(10)]
    for client in slow:
        # More than one response each: 600 MB are pending in all, and no client reads them.
        fetch_everything(client)
        fetch_everything(client)
    heads = [b""] * len(slow)
    for _ in range(20):
        for at, client in enumerate(slow):
            heads[at] += client.read_exactly(1)
        witness.check()
        time.sleep(0.01)
    assert resident_bytes(broker.pid) - before < 30_000_000
    # The slowest client gets all of its response in the end, and it is correct.
    size = int.from_bytes(heads[0][:4], "big")
    body = heads[0][4:] + slow[0].read_exactly(size + 4 - len(heads[0]))
    (topic,) = FetchResponse.from_bytes(body[4:], 11).responses
    records = topic.partitions[0].records
    assert records is not None
    assert len(records) == LARGE // 1_000_000 * len(batch)
    for client in slow:
        client.close()
    witness.check()
    assert resident_bytes(broker.pid) - before < 30_000_000
