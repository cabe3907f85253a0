"""The faults by name. After each, the cluster is healthy again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
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
    """The minimum number of records to acknowledge during and after each fault."""
    silence_s: float
    """How long a node is paused or partitioned."""

    def wait_for_progress(self) -> None:
        self.load.wait_for_more(self.records)

    def recover(self, *node_ids: int) -> None:
        if node_ids:
            self.cluster.start(*node_ids)
        self.cluster.wait_until_in_sync(*self.load.topics)
        self.wait_for_progress()

    def other_than(self, *node_ids: int) -> int:
        return next(each for each in self.cluster.node_ids if each not in node_ids)


def kill_leader(run: FaultRun) -> None:
    _kill(run, run.cluster.leader(STEADY))


def kill_follower(run: FaultRun) -> None:
    """Kill a follower of most partitions that is not the controller."""
    cluster = run.cluster
    _kill(run, run.other_than(cluster.leader(STEADY), cluster.controller()))


def kill_controller(run: FaultRun) -> None:
    _kill(run, run.cluster.controller())


def _kill(run: FaultRun, *node_ids: int) -> None:
    run.cluster.kill(*node_ids)
    run.wait_for_progress()
    run.recover(*node_ids)


def kill_minority(run: FaultRun) -> None:
    """Kill one controller after the other, as many as the quorum survives."""
    cluster = run.cluster
    killed: list[int] = []
    for _ in range((len(cluster.node_ids) - 1) // 2):
        killed.append(cluster.controller())
        cluster.kill(killed[-1])
        # No progress is required here: all replicas of a partition may be on killed nodes.
        cluster.processes.leader(other_than=killed[-1])
    run.recover(*killed)


def kill_all(run: FaultRun) -> None:
    """Kill all processes: the page cache keeps what they wrote, so no acked record is lost."""
    run.cluster.kill(*run.cluster.node_ids)
    run.recover(*run.cluster.node_ids)


def rolling_restart(run: FaultRun) -> None:
    for node_id in run.cluster.node_ids:
        run.cluster.stop(node_id)
        run.wait_for_progress()
        run.recover(node_id)


def pause_controller(run: FaultRun) -> None:
    """Pause the controller (SIGSTOP) for longer than its session: another node takes over."""
    _outlast(run, run.cluster.paused(run.cluster.controller()))


def isolate_leader(run: FaultRun) -> None:
    """Partition a leader from the other nodes but not from clients."""
    _outlast(run, run.cluster.partitioned([run.cluster.leader(STEADY)]))


def isolate_controller(run: FaultRun) -> None:
    _outlast(run, run.cluster.partitioned([run.cluster.controller()]))


def block_packets_of_leader(run: FaultRun) -> None:
    """A leader receives from the other nodes, but its packets are lost."""
    _outlast(run, run.cluster.partitioned([run.cluster.leader(STEADY)], one_way=True))


def block_packets_to_leader(run: FaultRun) -> None:
    """The other nodes receive from a leader, but their packets to it are lost."""
    cluster = run.cluster
    leader = cluster.leader(STEADY)
    others = [each for each in cluster.node_ids if each != leader]
    _outlast(run, cluster.partitioned(others, one_way=True))


def _outlast(run: FaultRun, fault: AbstractContextManager[None]) -> None:
    """Keep the fault up for a while; the cluster must make progress meanwhile."""
    with fault:
        time.sleep(run.silence_s)
        run.wait_for_progress()
    run.recover()


def full_disk(run: FaultRun) -> None:
    """Fill the disk of the broker that leads most partitions, and free it again.

    The broker may reject appends or end. Acknowledged records survive in both cases.
    """
    cluster = run.cluster
    node_id = cluster.leader(STEADY)
    with cluster.full_disk(node_id):
        time.sleep(run.silence_s)
    if cluster.has_ended(node_id):
        cluster.start(node_id)
    run.recover()


def reassign_replicas(run: FaultRun) -> None:
    """Reorder the replicas of every partition, kill a node meanwhile, then elect preferred leaders."""
    cluster = run.cluster
    asyncio.run(_rotate_replicas(cluster.processes.bootstrap))
    leader = cluster.leader(STEADY)
    cluster.kill(leader)
    run.wait_for_progress()
    cluster.start(leader)
    cluster.wait_until_in_sync(*run.load.topics)
    asyncio.run(_elect_preferred(cluster.processes.bootstrap))
    run.recover()


async def _rotate_replicas(bootstrap: str) -> None:
    async with Admin(bootstrap, api_timeout_ms=30_000) as admin:
        brokers = sorted(broker.node.id for broker in (await admin.brokers.describe_cluster()).brokers)
        topic = await admin.topics.describe(STEADY)
        targets = {}
        for partition in topic.partitions:
            first = partition.replicas[0]
            # Shifted by one, so replicas move if there are more brokers than replicas.
            at = brokers.index(first) + 1
            rotated = [*brokers[at:], *brokers[:at]][: len(partition.replicas)]
            targets[TopicPartition(STEADY, partition.partition)] = rotated
        await admin.reassignments.alter(targets)


async def _elect_preferred(bootstrap: str) -> None:
    async with Admin(bootstrap, api_timeout_ms=30_000) as admin:
        tps = [TopicPartition(STEADY, index) for index in range(PARTITIONS)]
        await admin.leader_elections.elect(ElectionType.PREFERRED, tps)


PROCESS_FAULTS: dict[str, Callable[[FaultRun], None]] = {
    "kill-leader": kill_leader,
    "kill-follower": kill_follower,
    "kill-controller": kill_controller,
    "kill-minority": kill_minority,
    "kill-all": kill_all,
    "rolling-restart": rolling_restart,
    "pause-controller": pause_controller,
    "reassign-replicas": reassign_replicas,
}
HOST_FAULTS: dict[str, Callable[[FaultRun], None]] = {
    "isolate-leader": isolate_leader,
    "isolate-controller": isolate_controller,
    "block-packets-of-leader": block_packets_of_leader,
    "block-packets-to-leader": block_packets_to_leader,
    "full-disk": full_disk,
}
"""Faults for which each node needs its own network and disk."""
FAULTS = PROCESS_FAULTS | HOST_FAULTS
