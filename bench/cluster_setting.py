"""The two clusters of a benchmark: three nodes with both roles each, on an empty directory, and topics."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from confluent_kafka.admin import AdminClient, NewTopic

from bench.contenders import COMMON_PROPERTIES
from bench.setting import Conditions
from tests.support.brokers.kafka_cluster import ApacheKafkaCluster
from tests.support.brokers.node import Node
from tests.support.brokers.quorum import QuorumCluster
from tests.support.clients.replicas import wait_until_in_sync
from tests.support.tools.kafka_jars import BENCH_JAVA_OPTIONS

COPIES = 3
MIN_IN_SYNC = 2


class Cluster(Protocol):
    @property
    def nodes(self) -> Mapping[int, Node]: ...

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers: the running nodes."""
        ...

    def log_tail(self, lines: int) -> str: ...

    def start(self) -> object: ...


def new_ruslo_cluster(directory: Path) -> Cluster:
    return QuorumCluster(directory, dynamic=True, properties=COMMON_PROPERTIES)


def new_apache_kafka_cluster(directory: Path) -> Cluster:
    """Apache Kafka with its default timeouts and heap."""
    return ApacheKafkaCluster(
        directory, properties=COMMON_PROPERTIES, base={}, java_options=BENCH_JAVA_OPTIONS
    )


CLUSTERS: dict[str, Callable[[Path], Cluster]] = {
    "ruslo": new_ruslo_cluster,
    "kafka": new_apache_kafka_cluster,
}


@dataclass(frozen=True)
class ClusterSetting(Conditions):
    """The conditions of a measurement and the cluster that is measured."""

    new_cluster: Callable[[Path], Cluster]

    @classmethod
    def under(cls, conditions: Conditions, new_cluster: Callable[[Path], Cluster]) -> ClusterSetting:
        return cls(**vars(conditions), new_cluster=new_cluster)


@contextlib.contextmanager
def running_cluster(setting: ClusterSetting) -> Iterator[Cluster]:
    shutil.rmtree(setting.folder, ignore_errors=True)
    cluster = setting.new_cluster(setting.folder)
    try:
        cluster.start()
        yield cluster
    finally:
        for node in cluster.nodes.values():
            node.kill()
        shutil.rmtree(setting.folder, ignore_errors=True)


def create_replicated_topic(cluster: Cluster, name: str, partitions: int) -> None:
    """Create a topic with three replicas of each partition; return when all are in sync."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topic = NewTopic(name, partitions, COPIES, config={"min.insync.replicas": str(MIN_IN_SYNC)})
    admin.create_topics([topic], operation_timeout=60)[name].result(60)
    wait_until_in_sync(cluster.bootstrap, name, COPIES)
