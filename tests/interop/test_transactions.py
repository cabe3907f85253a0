"""Transactions with clients of other projects: librdkafka uses transaction version 1, Java version 2."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ruslo.model.errors import ErrorCode
from tests.interop.conftest import TopicMaker
from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.live_node import live_node
from tests.support.brokers.node import Node
from tests.support.brokers.ruslo import RusloNode
from tests.support.clients.librdkafka import Sent, produce_all
from tests.support.clients.raw_client import connected
from tests.support.tools.java_tools import JavaTools, tool_output
from tests.support.tools.programs import require_tool
from tests.support.txns.transactional_clients import CALL_S, Copier, new_transactional, read_committed
from tests.support.txns.txn_requests import TxnProducer


def test_only_committed_records_are_read(bootstrap: str, new_topic: TopicMaker, group: str) -> None:
    topic = new_topic(2)
    producer = new_transactional(bootstrap, group)
    for number, commit in enumerate((True, False, True, False, True)):
        producer.begin_transaction()
        for at in range(10):
            producer.produce(topic, f"{number}-{at}".encode(), partition=at % 2)
        producer.flush(CALL_S)
        if commit:
            producer.commit_transaction(CALL_S)
        else:
            producer.abort_transaction(CALL_S)
    expected = {f"{number}-{at}".encode() for number in (0, 2, 4) for at in range(10)}
    values = read_committed(bootstrap, topic, 2)
    assert (set(values), len(values)) == (expected, 30)


def test_a_zombie_is_fenced(bootstrap: str, new_topic: TopicMaker, group: str) -> None:
    topic = new_topic()
    zombie = new_transactional(bootstrap, group)
    zombie.begin_transaction()
    zombie.produce(topic, b"half done")
    zombie.flush(CALL_S)
    successor = new_transactional(bootstrap, group)
    successor.begin_transaction()
    successor.produce(topic, b"whole")
    successor.commit_transaction(CALL_S)
    zombie.produce(topic, b"too late")
    with pytest.raises(KafkaException) as fenced:
        zombie.commit_transaction(CALL_S)
    assert fenced.value.args[0].fatal()
    assert read_committed(bootstrap, topic) == [b"whole"]


def test_a_copy_is_exactly_once_through_aborts_and_takeovers(
    bootstrap: str, new_topic: TopicMaker, group: str
) -> None:
    source, target = new_topic(2), new_topic(2)
    sent = [str(number).encode() for number in range(300)]
    produce_all(bootstrap, source, [Sent(value, key=value) for value in sent])
    first = Copier(bootstrap, source, target, group, f"{group}-copier")
    copied = _copy(first, 120, abort_every=3)
    # The second worker has the same transactional id and group: no record is copied twice.
    first.close()
    second = Copier(bootstrap, source, target, group, f"{group}-copier")
    _copy(second, len(sent) - copied, abort_every=4)
    second.close()
    assert Counter(read_committed(bootstrap, target, 2)) == Counter(sent)


def _copy(copier: Copier, count: int, *, abort_every: int) -> int:
    """Copy at least this many records, with aborted transactions among the others; returns their number."""
    copied, transactions = 0, 0
    while copied < count:
        commit = transactions % abort_every != 1
        size = copier.step(20, commit=commit)
        copied += size * commit
        transactions += size > 0
    return copied


def test_offsets_of_an_open_transaction_are_not_returned(
    bootstrap: str, new_topic: TopicMaker, group: str
) -> None:
    topic = new_topic()
    produce_all(bootstrap, topic, [Sent(b"a"), Sent(b"b")])
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0}
    )
    producer = new_transactional(bootstrap, group)
    producer.begin_transaction()
    tp = TopicPartition(topic, 0, 2)
    producer.send_offsets_to_transaction([tp], consumer.consumer_group_metadata(), CALL_S)
    producer.abort_transaction(CALL_S)
    (committed,) = consumer.committed([TopicPartition(topic, 0)], CALL_S)
    assert committed.offset < 0
    producer.begin_transaction()
    producer.send_offsets_to_transaction([tp], consumer.consumer_group_metadata(), CALL_S)
    producer.commit_transaction(CALL_S)
    (committed,) = consumer.committed([TopicPartition(topic, 0)], CALL_S)
    assert committed.offset == 2
    consumer.close()


LEAVES_A_TRANSACTION_OPEN = """
import sys, time
from tests.support.txns.transactional_clients import CALL_S, new_transactional
bootstrap, topic, transactional_id = sys.argv[1:]
left = new_transactional(bootstrap, transactional_id, {"transaction.timeout.ms": 1000})
left.begin_transaction()
left.produce(topic, b"never committed")
left.flush(CALL_S)
print("open", flush=True)
time.sleep(60)
"""


def test_the_transaction_of_a_killed_client_times_out(
    bootstrap: str, new_topic: TopicMaker, group: str
) -> None:
    topic = new_topic()
    command = [sys.executable, "-c", LEAVES_A_TRANSACTION_OPEN, bootstrap, topic, group]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"open\n"
        client.kill()
    produce_all(bootstrap, topic, [Sent(b"behind it")])
    deadline = time.monotonic() + 90
    while (values := read_committed(bootstrap, topic)) == []:
        assert time.monotonic() < deadline
    assert values == [b"behind it"]


# -- Java: transaction version 2 -----------------------------------------------------------------------------


def test_kafkas_own_copier_and_tools(bootstrap: str, new_topic: TopicMaker, group: str) -> None:
    require_tool("java")
    source, target = new_topic(), new_topic(2)
    sent = [str(number).encode() for number in range(500)]
    produce_all(bootstrap, source, [Sent(value, partition=0) for value in sent])
    transactional_id = f"{group}-java"
    tool_output(
        "org.apache.kafka.tools.TransactionalMessageCopier",
        *("--broker-list", bootstrap),
        *("--input-topic", source, "--input-partition", "0", "--output-topic", target),
        *("--max-messages", "500", "--transaction-size", "40", "--enable-random-aborts"),
        *("--transactional-id", transactional_id, "--consumer-group", group),
    )
    assert Counter(read_committed(bootstrap, target, 2)) == Counter(sent)
    tool = ("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", bootstrap)
    assert transactional_id in tool_output(*tool, "list")
    assert "CompleteCommit" in tool_output(*tool, "describe", "--transactional-id", transactional_id)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_kafkas_verifiable_consumer_reads_only_committed_records(
    bootstrap: str, new_topic: TopicMaker, group: str, protocol: str, tmp_path: Path
) -> None:
    """It reads while two producers, one of which always aborts, write to the same partitions."""
    require_tool("java")
    topic = new_topic(2)
    committing, aborting = (new_transactional(bootstrap, f"{group}-{name}") for name in ("a", "b"))
    isolation = tmp_path / "consumer.properties"
    isolation.write_text("isolation.level=read_committed\n")
    transactions, size = 20, 10
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group, "--verbose"]
    arguments += ["--group-protocol", protocol, "--max-messages", str(transactions * size)]
    arguments += ["--command-config", str(isolation)]
    with JavaTools() as java:
        consuming = java.begin("org.apache.kafka.tools.VerifiableConsumer", *arguments)
        for number in range(transactions):
            for producer, name in ((aborting, "no"), (committing, "yes")):
                producer.begin_transaction()
                for at in range(size):
                    producer.produce(topic, f"{name}-{number}-{at}".encode(), partition=at % 2)
                producer.flush(CALL_S)
            committing.commit_transaction(CALL_S)
            aborting.abort_transaction(CALL_S)
        result = consuming.result(timeout=60)
    events = [json.loads(line) for line in result.output.splitlines()]
    seen = Counter(event["value"] for event in events if event["name"] == "record_data")
    assert seen == Counter(f"yes-{number}-{at}" for number in range(transactions) for at in range(size))


# -- on disk -------------------------------------------------------------------------------------------------


class Cluster:
    """One data directory, with the same ports for both systems."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.node: Node = RusloNode(directory / "ruslo", data_dirs=[self.data])
        self.node.start()
        admin = AdminClient({"bootstrap.servers": self.node.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(timeout=30)

    @property
    def data(self) -> Path:
        return self._directory / "data"

    def hand_over_to_kafka(self) -> None:
        before = self.node
        before.stop()
        self.node = ApacheKafka(
            self._directory / "kafka",
            data_dirs=[self.data],
            cluster_id=before.cluster_id,
            port=before.port,
            controller_port=before.controller_port,
        )
        self.node.start()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.node.stop()


def test_kill_9_in_the_middle_of_transactions(cluster: Cluster) -> None:
    bootstrap = cluster.node.bootstrap
    survivor, orphan = (new_transactional(bootstrap, name) for name in ("survivor", "orphan"))
    survivor.begin_transaction()
    survivor.produce("t", b"committed before")
    survivor.commit_transaction(CALL_S)
    for producer in (survivor, orphan):
        producer.begin_transaction()
        producer.produce("t", b"open while it died")
        assert producer.flush(CALL_S) == 0
    cluster.node.kill()
    cluster.node.start()
    assert read_committed(bootstrap, "t") == [b"committed before"]
    survivor.produce("t", b"written after")
    survivor.commit_transaction(CALL_S)
    # The other transaction starts later in the log and is still open.
    assert read_committed(bootstrap, "t") == [b"committed before", b"open while it died"]
    new_transactional(bootstrap, "orphan")
    assert read_committed(bootstrap, "t") == [
        b"committed before",
        b"open while it died",
        b"written after",
    ]


def test_kafka_continues_with_our_transaction_log(cluster: Cluster) -> None:
    require_tool("java")
    bootstrap = cluster.node.bootstrap
    producer = new_transactional(bootstrap, "moves")
    for value, commit in ((b"a", True), (b"b", False)):
        producer.begin_transaction()
        producer.produce("t", value)
        producer.flush(CALL_S)
        if commit:
            producer.commit_transaction(CALL_S)
        else:
            producer.abort_transaction(CALL_S)
    producer.begin_transaction()
    producer.produce("t", b"open")
    producer.flush(CALL_S)
    (log,) = (each for each in cluster.data.glob("__transaction_state-*/*.log") if each.stat().st_size)
    dump = ("org.apache.kafka.tools.DumpLogSegments", "--files", str(log), "--print-data-log")
    dumped = tool_output(*dump, "--transaction-log-decoder")
    statuses = [part.split(",")[0] for part in dumped.split('"transactionStatus":')[1:]]
    assert statuses == ["0", "1", "2", "4", "1", "3", "5", "1"], dumped
    cluster.hand_over_to_kafka()
    successor = new_transactional(bootstrap, "moves")
    successor.begin_transaction()
    successor.produce("t", b"written by Kafka")
    successor.commit_transaction(CALL_S)
    assert read_committed(bootstrap, "t") == [b"a", b"written by Kafka"]


async def test_kafkas_tool_finds_a_hanging_transaction_and_aborts_it(tmp_path: Path) -> None:
    """No coordinator knows this transaction: old brokers accept writes to partitions that were not added."""
    require_tool("java")
    unverified = {"transaction.partition.verification.enable": "false"}
    async with live_node(tmp_path, unverified) as node, connected(node.bootstrap) as client:
        await node.create("t")
        producer = TxnProducer(node, client, is_v2=False)
        await producer.init()
        assert await producer.write(b"hangs") is ErrorCode.NONE

        async def tool(*arguments: str) -> str:
            command = ("--bootstrap-server", node.bootstrap, *arguments)
            name = "org.apache.kafka.tools.TransactionsCommand"
            return await asyncio.to_thread(tool_output, name, *command)

        tp = ("--topic", "t", "--partition", "0")
        # Recent transactions are not reported, but with 0 minutes this one is.
        await asyncio.sleep(0.01)
        found = await tool("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0")
        assert [line.split()[:3] for line in found.splitlines()[1:]] == [["t", "0", "0"]]
        await tool("abort", *tp, "--start-offset", "0")
        assert node.partition().log.last_stable_offset == 2
        assert len((await tool("find-hanging", *tp)).splitlines()) == 1
