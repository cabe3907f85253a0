"""The stalls of clients when nodes of a cluster are killed or restarted."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from bench.cluster_setting import ClusterSetting, create_replicated_topic, running_cluster
from bench.outliers import Onlooker
from bench.setting import Figures
from ruslo.client.admin.admin import Admin
from tests.support.clients.replicas import busiest_leader, wait_until_in_sync
from tests.support.clients.steady_producer import SteadyProducer

TOPIC = "steady"
PARTITIONS = 6
KILLS = 10
CONTROLLER_KILLS = 3
SETTLED_RECORDS = 2_000
CREATED_AFTER_A_KILL = 5
GIVE_UP_AFTER_S = 180.0
DEFAULTS: dict[str, str | int | bool] = {"log_level": 2}
"""Only the log level differs from the defaults: lost brokers are expected here."""


def kill_9(setting: ClusterSetting) -> Figures:
    """Kill the broker that leads most partitions, repeatedly, under a producer with default settings."""
    stalls_s = []
    with running_cluster(setting) as cluster:
        create_replicated_topic(cluster, TOPIC, PARTITIONS)
        with SteadyProducer(cluster.bootstrap, TOPIC, PARTITIONS, settings=DEFAULTS) as producer:
            for _ in range(max(KILLS // setting.divisor, 2)):
                producer.wait_for_every_partition()
                producer.forget_stalls()
                node = cluster.nodes[busiest_leader(cluster.bootstrap, TOPIC)]
                controller_id = _active_controller(cluster.bootstrap)
                onlooker = Onlooker(cluster.nodes.values())
                node.kill()
                producer.wait_for_every_partition()
                stalls_s.append(producer.longest_stall_s())
                what = f"kill -9 of node {node.node_id} (the active controller was node {controller_id})"
                onlooker.tell(f"{what}, partitions {producer.stalled_partitions()}", stalls_s[-1])
                node.start(GIVE_UP_AFTER_S)
                wait_until_in_sync(cluster.bootstrap, TOPIC)
    return {
        "stall_s": statistics.median(stalls_s),
        "longest_stall_s": max(stalls_s),
        "failed": len(producer.failed),
    }


def rolling_restart(setting: ClusterSetting) -> Figures:
    """Restart every node, one after the other, under the same producer."""
    with running_cluster(setting) as cluster:
        create_replicated_topic(cluster, TOPIC, PARTITIONS)
        with SteadyProducer(cluster.bootstrap, TOPIC, PARTITIONS, settings=DEFAULTS) as producer:
            producer.wait_for_more(SETTLED_RECORDS)
            producer.forget_stalls()
            longest_s = 0.0
            for node in cluster.nodes.values():
                onlooker = Onlooker(cluster.nodes.values())
                node.stop(GIVE_UP_AFTER_S)
                node.start(GIVE_UP_AFTER_S)
                wait_until_in_sync(cluster.bootstrap, TOPIC)
                producer.wait_for_every_partition()
                onlooker.tell(f"restart of node {node.node_id}", producer.longest_stall_s())
                longest_s = max(longest_s, producer.longest_stall_s())
                producer.forget_stalls()
    return {"stall_s": longest_s, "failed": len(producer.failed)}


def kill_controller(setting: ClusterSetting) -> Figures:
    """Kill the active controller while topics are created one after the other."""
    stalls_s = []
    with running_cluster(setting) as cluster:
        create_replicated_topic(cluster, TOPIC, PARTITIONS)
        for kill in range(max(CONTROLLER_KILLS // setting.divisor, 1)):
            controller = cluster.nodes[_active_controller(cluster.bootstrap)]
            others = ",".join(node.bootstrap for node in cluster.nodes.values() if node is not controller)
            with _TopicMaker(others, f"made-{kill}") as maker:
                maker.wait_for_more(CREATED_AFTER_A_KILL)
                maker.longest_s = 0.0
                onlooker = Onlooker(cluster.nodes.values())
                controller.kill()
                maker.wait_for_more(CREATED_AFTER_A_KILL)
            stalls_s.append(maker.longest_s)
            onlooker.tell(f"kill -9 of node {controller.node_id}, the active controller", maker.longest_s)
            controller.start(GIVE_UP_AFTER_S)
            wait_until_in_sync(cluster.bootstrap, TOPIC)
    return {"stall_s": statistics.median(stalls_s), "longest_stall_s": max(stalls_s)}


def _active_controller(bootstrap: str) -> int:
    async def ask() -> int:
        async with Admin(bootstrap) as admin:
            return (await admin.quorum.describe()).leader_id

    return asyncio.run(ask())


class _TopicMaker:
    """Creates topics while the context lasts; it retries a creation that fails."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.made = 0
        self.longest_s = 0.0
        self._prefix = prefix
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **DEFAULTS})
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topic-maker")

    def __enter__(self) -> _TopicMaker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def wait_for_more(self, topics: int) -> None:
        wanted = self.made + topics
        deadline = time.monotonic() + GIVE_UP_AFTER_S
        while self.made < wanted:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{wanted - self.made} of {topics} topics were not created")
            time.sleep(0.01)

    def _run(self) -> None:
        while not self._ended.is_set():
            begin_s = time.monotonic()
            self._create(f"{self._prefix}-{self.made}")
            self.longest_s = max(self.longest_s, time.monotonic() - begin_s)
            self.made += 1

    def _create(self, name: str) -> None:
        while not self._ended.is_set():
            try:
                self._admin.create_topics([NewTopic(name, 1, 1)])[name].result(GIVE_UP_AFTER_S)
            except KafkaException as error:
                # The controller before may have created it, and died before it could say so.
                if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    return
                time.sleep(0.01)
            else:
                return
