"""Nodes of Ruslo and of Apache Kafka in one cluster."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import pytest

from ruslo.client.admin import Admin
from ruslo.client.topics import NewTopic
from ruslo.model.errors import KafkaError
from tests.support.kafka import ApacheKafka
from tests.support.quorum import QuorumNode
from tests.support.tools import require_tool
from tests.support.wire import free_port


@pytest.fixture(autouse=True)
def _needs_java() -> None:
    require_tool("java")


async def create(admin: Admin, topic: NewTopic) -> None:
    created = (await admin.topics.create([topic]))[topic.name]
    assert not isinstance(created, KafkaError), created


def ruslo_beside(
    kafka: ApacheKafka,
    directory: Path,
    voters: str,
    roles: str,
    controller_port: int,
    properties: Mapping[str, str] | None = None,
) -> QuorumNode:
    return QuorumNode(
        directory,
        node_id=2,
        cluster_id=kafka.cluster_id,
        port=free_port(),
        controller_port=controller_port,
        properties={"controller.quorum.voters": voters, **(properties or {})},
        roles=roles,
    )


def test_a_broker_of_ruslo_under_a_controller_of_kafka(tmp_path: Path) -> None:
    kafka = ApacheKafka(tmp_path / "kafka", quorum="static")
    voters = f"1@127.0.0.1:{kafka.controller_port}"
    broker = ruslo_beside(kafka, tmp_path / "ruslo", voters, "broker", free_port())

    async def story() -> None:
        async with Admin(broker.bootstrap) as admin:
            described = await admin.brokers.describe_cluster()
            assert [(each.node.id, each.fenced) for each in described.brokers] == [(1, False), (2, False)]
            # What this broker is asked goes to Kafka's controller in an envelope.
            await create(admin, NewTopic("t", assignments={0: [1], 1: [2]}))
            info = await admin.topics.describe("t")
            assert [partition.leader_id for partition in info.partitions] == [1, 2]
            assert (await admin.brokers.describe_quorum()).leader_id == 1

    with kafka:
        broker.start()
        try:
            asyncio.run(story())
        finally:
            broker.stop()


def wait_until_listening(port: int, timeout_s: float = 90) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            assert time.monotonic() < deadline, f"nobody listens on port {port}"
            time.sleep(0.05)


@pytest.mark.parametrize("leader", ["either", "ruslo"])
def test_a_quorum_of_both(tmp_path: Path, leader: Literal["either", "ruslo"]) -> None:
    """Two voters, so that nothing is committed which either of them has not got."""
    ports = free_port(), free_port()
    voters = f"1@127.0.0.1:{ports[0]},2@127.0.0.1:{ports[1]}"
    patient = {"controller.quorum.election.timeout.ms": "60000"}
    kafka = ApacheKafka(
        tmp_path / "kafka",
        quorum="static",
        controller_port=ports[0],
        properties={"controller.quorum.voters": voters, **(patient if leader == "ruslo" else {})},
    )
    ruslo = ruslo_beside(kafka, tmp_path / "ruslo", voters, "controller", ports[1])

    async def story() -> None:
        async with Admin(kafka.bootstrap) as admin:
            for name in ("a", "b"):
                await create(admin, NewTopic(name, 2, 1))
            quorum = await admin.brokers.describe_quorum()
            assert {voter.replica_id for voter in quorum.voters} == {1, 2}
            assert min(voter.log_end_offset for voter in quorum.voters) > 0
            assert quorum.leader_id in ((1, 2) if leader == "either" else (2,))

    kafka.launch()
    try:
        # Where nobody listens nobody lives: the other one would stand for election at once.
        wait_until_listening(ports[0])
        ruslo.launch()
        kafka.wait_until_ready()
        asyncio.run(story())
    finally:
        ruslo.kill()
        kafka.kill()
