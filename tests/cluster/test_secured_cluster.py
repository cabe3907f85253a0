"""A cluster of Ruslo whose nodes talk to each other over TLS and SASL, with real processes and kill -9."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.client.settings.channel_security import channel_security
from ruslo.model.acls import Acl, Operation, PatternType, Permission, ResourceType
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import METADATA_TOPIC_ID
from ruslo.net.channel import Channel, ChannelSettings
from ruslo.protocol.apis import API_BY_KEY
from ruslo.protocol.message import Message
from ruslo.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from ruslo.protocol.messages.alter_partition_request import AlterPartitionRequest
from ruslo.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from ruslo.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ruslo.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ruslo.protocol.messages.create_topics_response import CreateTopicsResponse
from ruslo.protocol.messages.envelope_request import EnvelopeRequest
from ruslo.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ruslo.protocol.messages.fetch_response import FetchResponse
from ruslo.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from ruslo.protocol.messages.vote_request import VoteRequest
from ruslo.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ruslo.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse
from tests.support.brokers.secured import USERS, SecuredCluster, SecuredQuorumNode, secured
from tests.support.network.ports import free_port

PROPERTIES = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with SecuredCluster(tmp_path_factory.mktemp("secured"), PROPERTIES) as cluster:
        cluster.start()
        asyncio.run(set_up(cluster))
        yield cluster


async def set_up(cluster: SecuredCluster) -> None:
    async with cluster.admin() as admin:
        await admin.acls.create(
            [
                allow("alice", ResourceType.TOPIC, "orders", Operation.ALL),
                allow("alice", ResourceType.GROUP, "readers", Operation.ALL),
                allow("alice", ResourceType.TRANSACTIONAL_ID, "writer", Operation.ALL),
            ]
        )
        await create(admin, NewTopic("orders", 1, 3, configs={"min.insync.replicas": "2"}))


def allow(user: str, resource_type: ResourceType, name: str, operation: Operation) -> Acl:
    return Acl(resource_type, name, PatternType.LITERAL, f"User:{user}", "*", operation, Permission.ALLOW)


async def create(admin: Admin, topic: NewTopic) -> None:
    created = (await admin.topics.create([topic]))[topic.name]
    if isinstance(created, KafkaError):
        raise created


def librdkafka_settings(cluster: SecuredCluster, user: str, **settings: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.clients,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(cluster.directory / "ca.pem"),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": USERS[user],
        "log_level": 0,
        **settings,
    }


def leader_of_orders(cluster: SecuredCluster, *, in_sync: int) -> int | None:
    """The leader, once so many replicas are in sync."""

    async def described() -> int | None:
        async with cluster.admin() as admin:
            (partition,) = (await admin.topics.describe("orders")).partitions
            return partition.leader_id if len(partition.isr) == in_sync else None

    return asyncio.run(described())


def write_transaction(producer: Producer, values: list[bytes], *, commit: bool = True) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce("orders", value)
    producer.flush(60)
    if commit:
        producer.commit_transaction(60)
    else:
        producer.abort_transaction(60)


def read(consumer: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    while len(values) < count:
        record = consumer.poll(60)
        assert record is not None, f"only {len(values)} of {count} records"
        assert record.error() is None, record.error()
        values.append(record.value())
    return values


def test_transactions_and_groups_survive_the_kill_of_the_leader(cluster: SecuredCluster) -> None:
    producer = Producer(librdkafka_settings(cluster, "alice", **{"transactional.id": "writer"}))
    producer.init_transactions(60)
    consumer = Consumer(
        librdkafka_settings(cluster, "alice", **{"group.id": "readers", "auto.offset.reset": "earliest"})
    )
    consumer.subscribe(["orders"])
    write_transaction(producer, [b"aborted"], commit=False)
    write_transaction(producer, [b"1", b"2"])
    assert read(consumer, 2) == [b"1", b"2"]
    consumer.commit(asynchronous=False)

    killed = cluster.until(partial(leader_of_orders, cluster, in_sync=3))
    cluster.nodes[killed].kill()
    write_transaction(producer, [b"3"])
    assert read(consumer, 1) == [b"3"]
    assert cluster.until(partial(leader_of_orders, cluster, in_sync=2)) != killed

    # The node that comes back logs in again, replicates, and can lead again.
    cluster.start([cluster.nodes[killed]])
    cluster.until(partial(leader_of_orders, cluster, in_sync=3))
    consumer.close()


async def create_through(admin: Admin, node_id: int, name: str) -> int:
    """The error code of CreateTopics at this broker, which forwards it to the active controller."""
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=3)
    response = await admin.cluster.node(
        node_id, CreateTopicsRequest(topics=[topic], timeout_ms=30_000), CreateTopicsResponse
    )
    return response.topics[0].error_code


async def test_forwarded_requests_are_authorized_by_the_principal_of_the_client(
    cluster: SecuredCluster,
) -> None:
    """The broker that forwards is a super user; its rights must not be lent to the client."""
    async with cluster.admin() as admin, cluster.admin("bob") as bob:
        for node_id in cluster.nodes:
            topic = f"bob-{node_id}"
            denied = await create_through(bob, node_id, topic)
            assert denied == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            await admin.acls.create([allow("bob", ResourceType.TOPIC, topic, Operation.CREATE)])
            assert await create_through(bob, node_id, topic) == ErrorCode.NONE
        with pytest.raises(KafkaError) as error:
            await bob.acls.create([allow("bob", ResourceType.TOPIC, "*", Operation.ALL)])
        assert error.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_a_topic_is_created_by_a_user_who_may_not_describe_it(cluster: SecuredCluster) -> None:
    async with cluster.admin() as admin, cluster.admin("bob") as bob:
        await admin.acls.create([allow("bob", ResourceType.TOPIC, "unseen", Operation.CREATE)])
        await create(bob, NewTopic("unseen", 1, 3))
        assert [topic.name for topic in await bob.topics.list()] == []
        assert (await admin.topics.describe("unseen")).name == "unseen"


CLUSTER_ACTIONS: list[Message] = [
    AllocateProducerIdsRequest(broker_id=1),
    AlterPartitionRequest(broker_id=1),
    BeginQuorumEpochRequest(),
    BrokerHeartbeatRequest(broker_id=1),
    BrokerRegistrationRequest(broker_id=1),
    EnvelopeRequest(request_data=b"", client_host_address=bytes([127, 0, 0, 1])),
    # The metadata log holds SCRAM credentials and delegation tokens.
    FetchRequest(
        replica_state=ReplicaState(replica_id=1),
        max_wait_ms=0,
        topics=[
            FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[FetchPartition(partition_max_bytes=1 << 20)])
        ],
    ),
    FetchSnapshotRequest(replica_id=1),
    VoteRequest(),
]


async def channel(cluster: SecuredCluster, port: int, user: str, mechanism: str) -> Channel:
    settings = cluster.client(user, f"127.0.0.1:{port}", mechanism)
    return await Channel.open("127.0.0.1", port, ChannelSettings(security=channel_security(settings)))


@pytest.mark.parametrize("request_", CLUSTER_ACTIONS, ids=lambda each: type(each).__name__)
async def test_a_stranger_cannot_act_as_a_node_at_a_controller(
    cluster: SecuredCluster, request_: Message
) -> None:
    for node in cluster.nodes.values():
        stranger = await channel(cluster, node.controller_port, "bob", "PLAIN")
        api = API_BY_KEY[request_.API_KEY]
        response: Any = await stranger.request(request_, api.response)
        assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert not getattr(response, "responses", None)
        await stranger.close()


async def test_a_stranger_cannot_act_as_a_replica(cluster: SecuredCluster) -> None:
    async with cluster.admin() as admin:
        info = await admin.topics.describe("orders")
    leader = secured(cluster.nodes[info.partitions[0].leader_id])
    fetch = FetchRequest(
        replica_state=ReplicaState(replica_id=1),
        max_wait_ms=0,
        topics=[FetchTopic(topic_id=info.topic_id, partitions=[FetchPartition(partition_max_bytes=1 << 20)])],
    )
    marker = WritableTxnMarker(topics=[WritableTxnMarkerTopic(name="orders", partition_indexes=[0])])
    stranger = await channel(cluster, leader.ports.brokers, "bob", "SCRAM-SHA-512")
    fetched = await stranger.request(fetch, FetchResponse)
    (partition,) = fetched.responses[0].partitions
    assert partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not partition.records
    written = await stranger.request(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse)
    (result,) = written.markers[0].topics[0].partitions
    assert result.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    await stranger.close()


@pytest.mark.parametrize(
    ("user", "password", "reason"),
    [
        ("broker", "not-this-one", "refuses this node: SASL_AUTHENTICATION_FAILED"),
        ("bob", USERS["bob"], "refuses this node: CLUSTER_AUTHORIZATION_FAILED. Add the principal"),
    ],
)
def test_a_broker_with_a_wrong_login_is_refused_and_logs_why(
    cluster: SecuredCluster, user: str, password: str, reason: str
) -> None:
    node = SecuredQuorumNode(
        cluster.directory / f"intruder-{user}",
        node_id=4,
        cluster_id=cluster.cluster_id,
        port=free_port(),
        controller_port=free_port(),
        properties={
            "controller.quorum.voters": cluster.nodes[1].server_properties()["controller.quorum.voters"]
        },
        roles="broker",
    )
    node.user, node.password = user, password
    node.launch()
    try:
        cluster.until(lambda: reason in node.log_tail() or None)
    finally:
        node.kill()
    assert password not in node.log_tail()
    assert 4 not in asyncio.run(broker_ids(cluster))


async def broker_ids(cluster: SecuredCluster) -> set[int]:
    async with cluster.admin() as admin:
        return {broker.node.id for broker in (await admin.brokers.describe_cluster()).brokers}
