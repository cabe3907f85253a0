"""The faults by name. After each, the cluster is healthy again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.leader_elections import ElectionType
from ruslo.model.topics import TopicPartition
from tests.support.faults.cluster import FaultCluster
from tests.support.faults.load import PARTITIONS, STEADY, FaultLoad


@dataclass(frozen=True)
class FaultRun:
    """A cluster under load, and the durations of this run."""

    cluster: FaultCluster
    load: FaultLoad
    records: int
    """The least number of records acknowledged during and after each fault."""
    silence_s: float
    """How long a node is paused or partitioned."""

    def go_on(self) -> None:
        self.load.wait_for_more(self.records)

    def recover(self, *node_ids: int) -> None:
        if node_ids:
            self.cluster.start(*node_ids)
        self.cluster.wait_until_in_sync(*self.load.topics)
        self.go_on()

    def other_than(self, *node_ids: int) -> int:
        return next(each for each in self.cluster.node_ids if each not in node_ids)


def kill_leader(ordeal: FaultRun) -> None:
    _kill(ordeal, ordeal.cluster.leader(STEADY))


def kill_follower(ordeal: FaultRun) -> None:
    """Kill a follower of most partitions that is not the controller."""
    cluster = ordeal.cluster
    _kill(ordeal, ordeal.other_than(cluster.leader(STEADY), cluster.controller()))


def kill_controller(ordeal: FaultRun) -> None:
    _kill(ordeal, ordeal.cluster.controller())


def _kill(ordeal: FaultRun, *node_ids: int) -> None:
    ordeal.cluster.kill(*node_ids)
    ordeal.go_on()
    ordeal.recover(*node_ids)


def kill_a_minority(ordeal: FaultRun) -> None:
    """Kill as many nodes as the quorum survives, the controller among them, one after the other."""
    cluster = ordeal.cluster
    gone: list[int] = []
    for _ in range((len(cluster.node_ids) - 1) // 2):
        gone.append(cluster.controller())
        cluster.kill(gone[-1])
        # Partitions whose replicas are all on killed nodes wait until one is back.
        cluster.processes.leader(other_than=gone[-1])
    ordeal.recover(*gone)


def kill_all(ordeal: FaultRun) -> None:
    """Kill all processes: the page cache keeps what they wrote, so no acked record is lost."""
    ordeal.cluster.kill(*ordeal.cluster.node_ids)
    ordeal.recover(*ordeal.cluster.node_ids)


def rolling_restart(ordeal: FaultRun) -> None:
    for node_id in ordeal.cluster.node_ids:
        ordeal.cluster.stop(node_id)
        ordeal.go_on()
        ordeal.recover(node_id)


def standstill(ordeal: FaultRun) -> None:
    """SIGSTOP for longer than a session: others take over, and the node does no harm when it resumes."""
    with ordeal.cluster.paused(ordeal.cluster.controller()):
        time.sleep(ordeal.silence_s)
        ordeal.go_on()
    ordeal.recover()


def minority_leader(ordeal: FaultRun) -> None:
    """Partition a leader from the other nodes but not from clients."""
    with ordeal.cluster.partitioned([ordeal.cluster.leader(STEADY)]):
        time.sleep(ordeal.silence_s)
        ordeal.go_on()
    ordeal.recover()


def cut_off_controller(ordeal: FaultRun) -> None:
    with ordeal.cluster.partitioned([ordeal.cluster.controller()]):
        time.sleep(ordeal.silence_s)
        ordeal.go_on()
    ordeal.recover()


def unheard_leader(ordeal: FaultRun) -> None:
    """A leader receives from the other nodes, but its packets are lost."""
    with ordeal.cluster.partitioned([ordeal.cluster.leader(STEADY)], one_way=True):
        time.sleep(ordeal.silence_s)
        ordeal.go_on()
    ordeal.recover()


def deaf_leader(ordeal: FaultRun) -> None:
    """The other nodes receive from a leader, but their packets to it are lost."""
    cluster = ordeal.cluster
    deaf = cluster.leader(STEADY)
    with cluster.partitioned([each for each in cluster.node_ids if each != deaf], one_way=True):
        time.sleep(ordeal.silence_s)
        ordeal.go_on()
    ordeal.recover()


def full_disk(ordeal: FaultRun) -> None:
    """Fill the disk of the broker that leads most partitions. Whether it rejects appends or ends,
    acknowledged records survive, and it continues when there is space."""
    cluster = ordeal.cluster
    node_id = cluster.leader(STEADY)
    with cluster.full_disk(node_id):
        time.sleep(ordeal.silence_s)
    if cluster.has_ended(node_id):
        cluster.start(node_id)
    ordeal.recover()


def moving_replicas(ordeal: FaultRun) -> None:
    """Reorder the replicas of every partition, kill a node meanwhile, then elect preferred leaders."""
    cluster = ordeal.cluster
    asyncio.run(_turn_replicas(cluster.processes.bootstrap))
    leader = cluster.leader(STEADY)
    cluster.kill(leader)
    ordeal.go_on()
    cluster.start(leader)
    cluster.wait_until_in_sync(*ordeal.load.topics)
    asyncio.run(_elect_preferred(cluster.processes.bootstrap))
    ordeal.recover()


async def _turn_replicas(bootstrap: str) -> None:
    async with Admin(bootstrap, api_timeout_ms=30_000) as admin:
        brokers = sorted(broker.node.id for broker in (await admin.brokers.describe_cluster()).brokers)
        topic = await admin.topics.describe(STEADY)
        targets = {}
        for partition in topic.partitions:
            first = partition.replicas[0]
            # Shifted by one, so replicas move if there are more brokers than replicas.
            at = brokers.index(first) + 1
            turned = [*brokers[at:], *brokers[:at]][: len(partition.replicas)]
            targets[TopicPartition(STEADY, partition.partition)] = turned
        await admin.reassignments.alter(targets)


async def _elect_preferred(bootstrap: str) -> None:
    async with Admin(bootstrap, api_timeout_ms=30_000) as admin:
        places = [TopicPartition(STEADY, index) for index in range(PARTITIONS)]
        await admin.leader_elections.elect(ElectionType.PREFERRED, places)


PROCESS_FAULTS: dict[str, Callable[[FaultRun], None]] = {
    "kill-leader": kill_leader,
    "kill-follower": kill_follower,
    "kill-controller": kill_controller,
    "kill-minority": kill_a_minority,
    "kill-all": kill_all,
    "rolling-restart": rolling_restart,
    "standstill": standstill,
    "moving-replicas": moving_replicas,
}
HOST_FAULTS: dict[str, Callable[[FaultRun], None]] = {
    "minority-leader": minority_leader,
    "cut-off-controller": cut_off_controller,
    "unheard-leader": unheard_leader,
    "deaf-leader": deaf_leader,
    "full-disk": full_disk,
}
"""Faults for which nodes need a network or a disk of their own."""
FAULTS = PROCESS_FAULTS | HOST_FAULTS
