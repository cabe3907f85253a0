"""Nodes of Ruslo and Apache Kafka in one cluster."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.client.settings.channel_security import channel_security
from ruslo.client.wire.raw import RawClient
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.net.channel import ChannelSettings
from ruslo.records.builder import build_batch
from ruslo.records.record import Record
from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.quorum import QuorumNode
from tests.support.brokers.secured import (
    ClusterPorts,
    SecuredQuorumNode,
    client_settings,
    cluster_properties,
    scram_options,
    write_certificates,
)
from tests.support.network.ports import free_port
from tests.support.share.share_client import SMALL
from tests.support.share.share_node import SHARE_NODE_PROPERTIES, new_share_group, send
from tests.support.share.share_reader import read_values
from tests.support.tools.java_tools import run_tool
from tests.support.tools.programs import require_tool


@pytest.fixture(autouse=True)
def _needs_java() -> None:
    require_tool("java")


async def create(admin: Admin, topic: NewTopic) -> None:
    created = (await admin.topics.create([topic]))[topic.name]
    assert not isinstance(created, KafkaError), created


def ruslo_beside(
    kafka: ApacheKafka,
    directory: Path,
    roles: str,
    properties: Mapping[str, str],
    *,
    controller_port: int | None = None,
    format_options: Sequence[str] = (),
) -> QuorumNode:
    return QuorumNode(
        directory,
        node_id=2,
        cluster_id=kafka.cluster_id,
        port=free_port(),
        controller_port=controller_port or free_port(),
        properties=properties,
        roles=roles,
        format_options=format_options,
    )


def test_a_broker_of_ruslo_under_a_controller_of_kafka(tmp_path: Path) -> None:
    kafka = ApacheKafka(tmp_path / "kafka", quorum="static")
    voters = {"controller.quorum.voters": f"1@127.0.0.1:{kafka.controller_port}"}
    broker = ruslo_beside(kafka, tmp_path / "ruslo", "broker", voters)

    async def scenario() -> None:
        async with Admin(broker.bootstrap) as admin:
            described = await admin.brokers.describe_cluster()
            assert [(each.node.id, each.fenced) for each in described.brokers] == [(1, False), (2, False)]
            # This broker forwards requests to Kafka's controller in an envelope.
            await create(admin, NewTopic("t", assignments={0: [1], 1: [2]}))
            info = await admin.topics.describe("t")
            assert [partition.leader_id for partition in info.partitions] == [1, 2]
            assert (await admin.quorum.describe()).leader_id == 1

    with kafka:
        broker.start()
        try:
            asyncio.run(scenario())
        finally:
            broker.stop()


def test_share_groups_whose_coordinators_and_leaders_are_on_both(tmp_path: Path) -> None:
    """Each system initializes, reads and writes share states at the other, and coordinates groups."""
    shares = {**SMALL, **SHARE_NODE_PROPERTIES, "offsets.topic.num.partitions": "4"}
    kafka = ApacheKafka(tmp_path / "kafka", quorum="static", properties=shares)
    voters = {"controller.quorum.voters": f"1@127.0.0.1:{kafka.controller_port}"}
    broker = ruslo_beside(kafka, tmp_path / "ruslo", "broker", voters | shares)

    async def prepare() -> None:
        async with Admin(broker.bootstrap) as admin:
            both = {index: [1 + index % 2] for index in range(4)}
            # As their coordinators would create them, but on both brokers for sure.
            await create(admin, NewTopic("__consumer_offsets", assignments=both))
            await create(admin, NewTopic("__share_group_state", assignments={0: [1], 1: [2], 2: [1]}))
            await create(admin, NewTopic("t", assignments=both))

    with kafka:
        broker.start()
        try:
            asyncio.run(prepare())
            sent = [str(number) for number in range(40)]
            send(broker.bootstrap, "t", sent)
            for node in (kafka, broker, kafka, broker):
                group = new_share_group(node.bootstrap)
                assert sorted(read_values(node.bootstrap, group, "t", len(sent))) == sorted(sent)
        finally:
            broker.stop()


def test_a_secured_broker_of_ruslo_under_a_controller_of_kafka(tmp_path: Path) -> None:
    """SCRAM between the brokers, PLAIN to the controller, all of it over TLS."""
    write_certificates(tmp_path)
    kafka_ports = ClusterPorts(free_port(), free_port(), free_port(), free_port())
    voters = {"controller.quorum.voters": f"1@127.0.0.1:{kafka_ports.controller}"}
    kafka = SecuredKafka(
        tmp_path / "kafka",
        quorum="static",
        port=kafka_ports.plaintext,
        controller_port=kafka_ports.controller,
        properties=voters | cluster_properties(tmp_path, kafka_ports, "broker,controller"),
    )
    ruslo = SecuredQuorumNode(
        tmp_path / "ruslo",
        node_id=2,
        cluster_id=kafka.cluster_id,
        port=free_port(),
        controller_port=free_port(),
        properties=voters,
        roles="broker",
    )

    def admin(user: str) -> Admin:
        client = client_settings(tmp_path, ruslo.clients, "SASL_SSL", user, "SCRAM-SHA-512")
        return Admin(ruslo.clients, settings=ChannelSettings(security=channel_security(client)))

    async def scenario() -> None:
        async with admin("admin") as super_user, admin("bob") as bob:
            # The same topic partition on both, led by either: each broker replicates from the other.
            await create(super_user, NewTopic("t", assignments={0: [1, 2], 1: [2, 1]}))
            batches = {
                TopicPartition("t", index): build_batch([Record(0, 0, None, b"book")]) for index in (0, 1)
            }
            await RawClient(super_user.cluster).produce(batches)
            for partition in (await super_user.topics.describe("t")).partitions:
                assert set(partition.isr) == {1, 2}
            # This broker forwards the request to Kafka's controller, which decides about the client.
            denied = await bob.topics.create([NewTopic("denied", 1, 1)])
            error = denied["denied"]
            assert isinstance(error, KafkaError)
            assert error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED

    with kafka:
        ruslo.start()
        try:
            asyncio.run(scenario())
        finally:
            ruslo.stop()


class SecuredKafka(ApacheKafka):
    """Kafka's tool formats it with the SCRAM users of a secured cluster."""

    def format(self) -> None:
        arguments = ["format", "-t", self.cluster_id, "-c", str(self.properties_file), *scram_options()]
        result = run_tool("kafka.tools.StorageTool", *arguments)
        assert result.returncode == 0, result.stdout + result.stderr


def wait_until_listening(port: int, timeout_s: float = 90) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            assert time.monotonic() < deadline, f"no process listens on port {port}"
            time.sleep(0.05)


def test_a_controller_of_ruslo_leads_one_of_kafka(tmp_path: Path) -> None:
    """Two voters, so every committed record is on both."""
    ports = free_port(), free_port()
    voters = {"controller.quorum.voters": f"1@127.0.0.1:{ports[0]},2@127.0.0.1:{ports[1]}"}
    kafka = ApacheKafka(
        tmp_path / "kafka",
        quorum="static",
        controller_port=ports[0],
        properties={**voters, "controller.quorum.election.timeout.ms": "60000"},
    )
    ruslo = ruslo_beside(kafka, tmp_path / "ruslo", "controller", voters, controller_port=ports[1])

    async def scenario() -> None:
        async with Admin(kafka.bootstrap) as admin:
            for name in ("a", "b"):
                await create(admin, NewTopic(name, 2, 1))
            quorum = await admin.quorum.describe()
            assert quorum.leader_id == 2
            assert {voter.replica_id for voter in quorum.voters} == {1, 2}
            assert min(voter.log_end_offset for voter in quorum.voters) > 0

    kafka.launch()
    try:
        wait_until_listening(ports[0])
        ruslo.launch()
        kafka.wait_until_ready()
        asyncio.run(scenario())
    finally:
        ruslo.kill()
        kafka.kill()


def test_a_controller_of_ruslo_joins_one_of_kafka(tmp_path: Path) -> None:
    """The controller follows as an observer, joins as a voter, and is then needed for every commit."""
    kafka = ApacheKafka(tmp_path / "kafka")
    joining = {
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{kafka.controller_port}",
        "controller.quorum.auto.join.enable": "true",
    }
    ruslo = ruslo_beside(
        kafka, tmp_path / "ruslo", "controller", joining, format_options=["--no-initial-controllers"]
    )

    async def scenario() -> None:
        async with Admin(kafka.bootstrap) as admin:
            async with asyncio.timeout(30):
                while len((await admin.quorum.describe()).voters) < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            await create(admin, NewTopic("t", 2, 1))
            quorum = await admin.quorum.describe()
            assert quorum.leader_id == 1
            assert min(voter.log_end_offset for voter in quorum.voters) >= quorum.high_watermark

    with kafka:
        ruslo.launch()
        try:
            asyncio.run(scenario())
        finally:
            # A clean shutdown would leave Kafka's controller without a majority, so it is stopped right
            # after.
            ruslo.kill()
            kafka.kill()
