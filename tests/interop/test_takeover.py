"""Ruslo and Apache Kafka replace each other: leaders in one cluster, directories of whole clusters."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ruslo.broker.node.format import format_storage
from ruslo.config.broker import BrokerConfig
from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.kafka_cluster import SMALL_JAVA_OPTIONS, SMALL_PROPERTIES
from tests.support.brokers.node import Node, random_cluster_id
from tests.support.brokers.quorum import QuorumCluster, QuorumNode, properties_for_roles
from tests.support.clients.librdkafka import Sent, by_partition, new_reader, produce_all, receive
from tests.support.clients.replicas import wait_until_in_sync
from tests.support.clients.steady_producer import SteadyProducer
from tests.support.network.ports import free_port
from tests.support.tools.programs import require_tool

RECORDS = 500
PARTITIONS = 3
GROUP = "readers"
SESSION = {"broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500"}
"""Apache Kafka waits for the session of a killed broker; a slow broker must not lose its session."""


@pytest.fixture(autouse=True)
def _needs_java() -> None:
    require_tool("java")


# -- one cluster with brokers of both systems ----------------------------------------------------------------


class MixedCluster:
    """A controller and a broker of Apache Kafka, and a broker of Ruslo."""

    def __init__(self, directory: Path) -> None:
        self.cluster_id = random_cluster_id()
        self._controller_port = free_port()
        self._quorum = {"controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}"}
        self.controller = self._kafka(directory / "controller", 1, "controller")
        self.kafka = self._kafka(directory / "kafka", 2, "broker")
        self.ruslo = QuorumNode(
            directory / "ruslo",
            node_id=3,
            cluster_id=self.cluster_id,
            port=free_port(),
            controller_port=free_port(),
            properties=self._quorum | SESSION,
            roles="broker",
        )

    def _kafka(self, directory: Path, node_id: int, roles: str) -> ApacheKafka:
        port = free_port()
        listeners = properties_for_roles(roles, port, self._controller_port)
        node = ApacheKafka(
            directory,
            properties={**SMALL_PROPERTIES, **self._quorum, **SESSION, **listeners},
            quorum="static",
            cluster_id=self.cluster_id,
            node_id=node_id,
            port=port,
            controller_port=self._controller_port,
            java_options=SMALL_JAVA_OPTIONS,
        )
        format_storage(BrokerConfig.from_properties(node.server_properties()), cluster_id=self.cluster_id)
        return node

    @property
    def bootstrap(self) -> str:
        return f"{self.kafka.bootstrap},{self.ruslo.bootstrap}"

    def start(self) -> None:
        for node in (self.controller, self.kafka, self.ruslo):
            node.launch()
        for node in (self.kafka, self.ruslo):
            node.wait_until_ready(90)

    def kill(self) -> None:
        for node in (self.ruslo, self.kafka, self.controller):
            node.kill()


def new_topic(bootstrap: str, topic: NewTopic) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([topic], operation_timeout=30)[topic.topic].result(30)


def wait_for_leader(bootstrap: str, topic: str, node_id: int) -> None:
    """Wait for the leader of all partitions; brokers learn of it shortly after the controller's decision."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deadline = time.monotonic() + 60
    while True:
        found = admin.list_topics(timeout=30).topics.get(topic)
        leaders = {partition.leader for partition in found.partitions.values()} if found else set()
        if leaders == {node_id}:
            return
        assert time.monotonic() < deadline, leaders
        time.sleep(0.05)


def test_each_takes_over_from_the_other_in_one_cluster(tmp_path: Path) -> None:
    """A Ruslo broker joins the ISR of a Kafka broker and leads after its kill -9; then the reverse."""
    cluster = MixedCluster(tmp_path)
    kafka, ruslo = cluster.kafka, cluster.ruslo
    try:
        cluster.start()
        assignments = [[kafka.node_id, ruslo.node_id]] * PARTITIONS
        new_topic(cluster.bootstrap, NewTopic("t", PARTITIONS, replica_assignment=assignments))
        wait_for_leader(kafka.bootstrap, "t", kafka.node_id)
        with SteadyProducer(cluster.bootstrap, "t", PARTITIONS) as producer:
            producer.wait_for_more(RECORDS)
            wait_until_in_sync(cluster.bootstrap, "t", 2)
            kafka.kill()
            producer.wait_for_more(RECORDS)
            producer.wait_for_every_partition()
            wait_for_leader(ruslo.bootstrap, "t", ruslo.node_id)

            kafka.start(90)
            wait_until_in_sync(ruslo.bootstrap, "t", 2)
            producer.wait_for_more(RECORDS)
            ruslo.kill()
            producer.wait_for_more(RECORDS)
            producer.wait_for_every_partition()
            wait_for_leader(kafka.bootstrap, "t", kafka.node_id)
        producer.check(kafka.bootstrap)
    finally:
        cluster.kill()


# -- the directories of three nodes --------------------------------------------------------------------------


@dataclass(frozen=True)
class Contents:
    """What clients see of a cluster, which must be equal with either system."""

    cluster_id: str
    topic_ids: dict[str, str]
    records: dict[str, dict[int, list[tuple[object, ...]]]]
    committed: dict[tuple[str, int], int]


def kafka_instead_of(nodes: Sequence[QuorumNode]) -> list[Node]:
    """Apache Kafka on the same directories, ids and ports."""
    return [
        ApacheKafka(
            node.directory / "as-kafka",
            data_dirs=node.data_dirs,
            properties={**node.server_properties(), **SMALL_PROPERTIES},
            cluster_id=node.cluster_id,
            node_id=node.node_id,
            port=node.port,
            controller_port=node.controller_port,
            java_options=SMALL_JAVA_OPTIONS,
        )
        for node in nodes
    ]


@contextmanager
def running(nodes: Sequence[Node]) -> Iterator[str]:
    """Run all nodes until the end; yields the addresses.

    All but the last node get a clean shutdown: without a quorum Apache Kafka would wait for minutes.
    """
    with ExitStack() as stack:
        for node in nodes:
            stack.callback(node.kill)
            node.launch()
        for node in nodes:
            node.wait_until_ready(90)
        yield ",".join(node.bootstrap for node in nodes)
        for node in nodes[:-1]:
            node.stop()


TOPICS: dict[str, dict[str, str]] = {"plain": {}, "compacted": {"cleanup.policy": "compact"}}


def write(bootstrap: str, run: str) -> None:
    for topic in TOPICS:
        wait_until_in_sync(bootstrap, topic)
        records = [
            Sent(f"{run} {number}".encode(), key=b"%d" % number, partition=number % PARTITIONS)
            for number in range(300)
        ]
        produce_all(bootstrap, topic, records, {"enable.idempotence": True})


def read_as_group(bootstrap: str, count: int) -> None:
    """Read this many records from the group's position and commit."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(list(TOPICS))
    try:
        assert len(receive(consumer, count)) == count
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


def contents(bootstrap: str) -> Contents:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_topics(TopicCollection(list(TOPICS)))
    records: dict[str, dict[int, list[tuple[object, ...]]]] = {}
    for topic in TOPICS:
        reader = new_reader(bootstrap)
        ends = [
            reader.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)[1]
            for partition in range(PARTITIONS)
        ]
        reader.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        found = by_partition(receive(reader, sum(ends)))
        reader.close()
        records[topic] = {
            partition: [(each.offset(), each.timestamp(), each.key(), each.value()) for each in messages]
            for partition, messages in found.items()
        }
    requested = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])[GROUP].result(30)
    assert requested.topic_partitions is not None
    return Contents(
        cluster_id=admin.describe_cluster().result(30).cluster_id,
        topic_ids={name: str(future.result(30).topic_id) for name, future in described.items()},
        records=records,
        committed={(each.topic, each.partition): each.offset for each in requested.topic_partitions},
    )


def test_the_directories_of_three_nodes_go_to_kafka_and_back(tmp_path: Path) -> None:
    cluster = QuorumCluster(
        tmp_path, dynamic=True, properties={**SESSION, "offsets.topic.replication.factor": "3"}
    )
    ours: list[Node] = list(cluster.nodes.values())
    theirs = kafka_instead_of(list(cluster.nodes.values()))
    with running(ours) as bootstrap:
        for name, config in TOPICS.items():
            new_topic(bootstrap, NewTopic(name, PARTITIONS, 3, config=config))
        write(bootstrap, "Ruslo")
        read_as_group(bootstrap, 400)
        before = contents(bootstrap)
    with running(theirs) as bootstrap:
        wait_until_in_sync(bootstrap, "plain")
        assert contents(bootstrap) == before
        write(bootstrap, "Kafka")
        read_as_group(bootstrap, 500)
        before = contents(bootstrap)
    with running(ours) as bootstrap:
        wait_until_in_sync(bootstrap, "plain")
        assert contents(bootstrap) == before
        write(bootstrap, "Ruslo again")
        read_as_group(bootstrap, 900)
