"""Several nodes of Ruslo as one cluster: real processes, real sockets, real kill -9."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.model.errors import KafkaError
from tests.support.brokers.quorum import QuorumCluster, QuorumNode

ResultT = TypeVar("ResultT")

SHORT_SESSIONS = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "300"}


def call_admin(bootstrap: str, call: Callable[[Admin], Awaitable[ResultT]]) -> ResultT:
    async def run() -> ResultT:
        async with Admin(bootstrap, api_timeout_ms=30_000) as admin:
            return await call(admin)

    return asyncio.run(run())


def create(bootstrap: str, name: str, partitions: int = 3) -> None:
    created = call_admin(bootstrap, lambda admin: admin.topics.create([NewTopic(name, partitions, 1)]))
    assert not isinstance(created[name], KafkaError), created[name]


def topics(node: QuorumNode) -> set[str]:
    """The topics that this broker knows."""
    listed = call_admin(node.bootstrap, lambda admin: admin.topics.list())
    return {topic.name for topic in listed}


def wait_for_topics(cluster: QuorumCluster, *names: str) -> None:
    """Wait until every running broker knows the topics."""
    for node in cluster.running_brokers:
        cluster.until(partial(_has_topics, node, set(names)))


def _has_topics(node: QuorumNode, names: set[str]) -> bool | None:
    return names <= topics(node) or None


def _is_fenced(cluster: QuorumCluster, node_id: int) -> bool | None:
    described = call_admin(cluster.bootstrap, lambda admin: admin.brokers.describe_cluster())
    return all(broker.fenced for broker in described.brokers if broker.node.id == node_id) or None


def test_metadata_survives_kill_9_of_every_leader_in_turn(tmp_path: Path) -> None:
    with QuorumCluster(tmp_path, properties=SHORT_SESSIONS).start() as cluster:
        for number, node in enumerate(cluster.brokers):
            create(node.bootstrap, f"through-{node.node_id}")
            assert f"through-{node.node_id}" in topics(node), f"broker {number} must know its own topic"
        created = [f"through-{node.node_id}" for node in cluster.brokers]
        for _ in range(2):
            killed = cluster.leader()
            cluster.nodes[killed].kill()
            assert cluster.leader(other_than=killed) != killed
            # The only replica of a partition must not be placed on the dead broker before it is fenced.
            cluster.until(partial(_is_fenced, cluster, killed))
            create(cluster.bootstrap, f"without-{killed}")
            created.append(f"without-{killed}")
            cluster.start([cluster.nodes[killed]])
            wait_for_topics(cluster, *created)


def test_a_whole_cluster_restarts(tmp_path: Path) -> None:
    with QuorumCluster(tmp_path, dynamic=True, properties=SHORT_SESSIONS).start() as cluster:
        create(cluster.bootstrap, "kept")
        epoch = cluster.quorum().leader_epoch
        for node in cluster.nodes.values():
            node.kill()
        cluster.start()
        wait_for_topics(cluster, "kept")
        assert cluster.quorum().leader_epoch > epoch
        for node in cluster.nodes.values():
            node.stop()
        cluster.start()
        wait_for_topics(cluster, "kept")
        create(cluster.bootstrap, "later")


def test_separate_controllers_and_brokers(tmp_path: Path) -> None:
    """Three controllers and two brokers, which follow as observers and find the next leader."""
    roles = ("controller", "controller", "controller", "broker", "broker")
    with QuorumCluster(tmp_path, roles=roles, dynamic=True).start() as cluster:
        quorum = cluster.quorum()
        assert {voter.replica_id for voter in quorum.voters} == {1, 2, 3}
        assert {observer.replica_id for observer in quorum.observers} == {4, 5}
        for node in cluster.brokers:
            create(node.bootstrap, f"through-{node.node_id}", partitions=4)
        wait_for_topics(cluster, "through-4", "through-5")
        cluster.nodes[quorum.leader_id].kill()
        assert cluster.leader(other_than=quorum.leader_id) in {1, 2, 3}
        create(cluster.bootstrap, "after")
        wait_for_topics(cluster, "after")


def test_a_clean_shutdown_hands_the_leadership_over(tmp_path: Path) -> None:
    with QuorumCluster(tmp_path, roles=("controller",) * 3 + ("broker",)).start() as cluster:
        before = cluster.quorum()
        cluster.nodes[before.leader_id].stop()
        after = cluster.leader(other_than=before.leader_id)
        create(cluster.bootstrap, "handed-over")
        assert cluster.quorum().leader_epoch == before.leader_epoch + 1, "there must be exactly one election"
        assert after in {1, 2, 3}


@pytest.mark.parametrize("auto_join", [False, True])
def test_voters_are_added_and_removed(tmp_path: Path, auto_join: bool) -> None:
    properties = {"controller.quorum.auto.join.enable": "true"} if auto_join else {}
    with QuorumCluster(tmp_path, roles=("broker,controller",), dynamic=True).start() as cluster:
        create(cluster.bootstrap, "before")
        joining = cluster.add("controller", properties)
        cluster.start([joining])
        if auto_join:
            cluster.until(lambda: {v.replica_id for v in cluster.quorum().voters} == {1, 2} or None)
        else:
            cluster.until(lambda: {o.replica_id for o in cluster.quorum().observers} == {2} or None)
        create(cluster.bootstrap, "after")
        voters = cluster.quorum().voters
        assert len(voters) == (2 if auto_join else 1)
