"""Repeated kill -9 under load: every acknowledged record is there, once and in order."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.node import Node
from tests.support.brokers.ruslo import RusloNode
from tests.support.clients.librdkafka import by_partition, read_records

KILLS = 20
PARTITIONS = 3
TOPIC = "load"


class Load(threading.Thread):
    """An idempotent producer that lives through every restart of the broker.

    Values are numbered per partition, so lost, duplicated and reordered records show.
    """

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="load")
        self.failures: list[str] = []
        self.sent = [0] * PARTITIONS
        self.acked: list[dict[int, int]] = [{} for _ in range(PARTITIONS)]  # number -> offset
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 40,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 20,
                "log_level": 0,
                "error_cb": self._on_error,
            }
        )

    @property
    def acked_count(self) -> int:
        return sum(len(acks) for acks in self.acked)

    def run(self) -> None:
        while not self._stopping.is_set() and not self.failures:
            for partition in range(PARTITIONS):
                for _ in range(15):
                    value = f"{partition}:{self.sent[partition]}"
                    self._producer.produce(TOPIC, value, partition=partition, on_delivery=self._on_delivery)
                    self.sent[partition] += 1
            self._producer.poll(0.005)
            if len(self._producer) > 5000:  # the broker is down: wait instead of filling the queue
                self._producer.poll(0.05)

    def finish(self) -> None:
        """Stop sending and wait until everything that was sent is acked."""
        self._stopping.set()
        self.join(30)
        unacked = self._producer.flush(60)
        if unacked:
            self.failures.append(f"{unacked} records were never acked")

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        partition, offset, value = message.partition(), message.offset(), message.value()
        if error is not None:
            self.failures.append(f"delivery of {value!r} failed: {error}")
            return
        assert partition is not None
        assert offset is not None
        assert isinstance(value, bytes)
        self.acked[partition][int(value.partition(b":")[2])] = offset

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.failures.append(f"fatal error of the producer: {error}")


@pytest.fixture
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    system = ApacheKafka if request.config.getoption("--target") == "kafka" else RusloNode
    properties = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"}
    node = system(tmp_path, properties=properties).start()
    try:
        yield node
    finally:
        node.kill()


def wait_for_acks(load: Load, more: int, node: Node) -> None:
    """Return when `more` further records were acked."""
    goal = load.acked_count + more
    deadline = time.monotonic() + 60
    while load.acked_count < goal and not load.failures:
        assert time.monotonic() < deadline, f"the load makes no progress\n{node.log_tail()}"
        time.sleep(0.002)


@pytest.mark.parametrize("topic_config", [{"flush.messages": "1"}, {}], ids=["synced", "page-cache"])
def test_acked_records_survive_kill_9(node: Node, topic_config: dict[str, str]) -> None:
    source = random.Random()
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    config = {"segment.bytes": "1048576", **topic_config}
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=config)])[TOPIC].result(timeout=30)
    load = Load(node.bootstrap)
    load.start()
    for kill in range(KILLS):
        if kill % 4 == 3:  # kill it while it starts, so that recovery itself is interrupted
            time.sleep(source.uniform(0, 0.4))
        else:
            wait_for_acks(load, source.randrange(1, 1000), node)
            time.sleep(source.uniform(0, 0.05))
        node.kill()
        node.launch()
    wait_for_acks(load, 100, node)
    load.finish()

    assert load.failures == []
    read = by_partition(read_records(node.bootstrap, TOPIC, PARTITIONS, sum(load.sent)))
    for partition in range(PARTITIONS):
        sent = [f"{partition}:{number}".encode() for number in range(load.sent[partition])]
        assert [message.value() for message in read[partition]] == sent
        offsets = {number: message.offset() for number, message in enumerate(read[partition])}
        assert load.acked[partition] == offsets
