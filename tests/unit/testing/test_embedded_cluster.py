"""Clusters in this process, with real sockets and files, and the faults that a test can inject."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ruslo.protocol.messages.delete_records_response import DeleteRecordsResponse
from ruslo.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ruslo.protocol.messages.describe_cluster_response import DescribeClusterResponse
from ruslo.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ruslo.protocol.messages.offset_fetch_response import OffsetFetchResponse
from ruslo.testing import ClusterNodeFailed, EmbeddedCluster
from tests.support.clients.raw_client import connected

SHORT_TIMEOUTS = {
    "log_level": 0,
    "request.timeout.ms": 1000,
    "socket.timeout.ms": 2000,
    "message.timeout.ms": 60_000,
}
"""A client of an unresponsive leader tries another broker only after a request timeout."""


@pytest.fixture
def cluster(ruslo_cluster: EmbeddedCluster) -> EmbeddedCluster:
    """The plugin's fixture, with a topic of one partition that has one record."""
    write(ruslo_cluster, b"first")
    return ruslo_cluster


def write(cluster: EmbeddedCluster, *values: bytes, to: str | None = None) -> None:
    """Produce the values and wait until all are acknowledged."""
    bootstrap = to or cluster.bootstrap
    failed: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **SHORT_TIMEOUTS})
    for value in values:
        producer.produce("t", value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(60) == 0
    assert failed == []


def read(bootstrap: str) -> list[bytes | None]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "enable.partition.eof": True, "log_level": 0}
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    values: list[bytes | None] = []
    try:
        while True:
            message = consumer.poll(10)
            assert message is not None, f"the end of the partition was not reached after {values}"
            error = message.error()
            if error is None:
                values.append(message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                return values
    finally:
        consumer.close()


def test_every_broker_names_itself_as_controller(cluster: EmbeddedCluster) -> None:
    """It forwards controller requests to the active controller."""

    async def controller_according_to(node_id: int) -> int:
        # Not librdkafka, which may send the request to any broker.
        async with connected(cluster.bootstrap_of(node_id)) as client:
            response = await client.call(DescribeClusterRequest(), DescribeClusterResponse)
        return response.controller_id

    for node_id in cluster.node_ids:
        assert asyncio.run(controller_according_to(node_id)) == node_id
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_of(node_id), **SHORT_TIMEOUTS})
        topic = f"made-by-{node_id}"
        admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(30)


def test_broker_knows_partitions_on_other_brokers(ruslo_cluster: EmbeddedCluster) -> None:
    """A client of the wrong broker must find the leader, and not assume that the topic was deleted."""
    admin = AdminClient({"bootstrap.servers": ruslo_cluster.bootstrap, **SHORT_TIMEOUTS})
    admin.create_topics([NewTopic("single", 1, 1)])["single"].result(30)
    elsewhere = next(each for each in ruslo_cluster.node_ids if each != ruslo_cluster.leader_of("single"))

    async def delete_records(topic: str, index: int) -> ErrorCode:
        records = DeleteRecordsTopic(
            name=topic, partitions=[DeleteRecordsPartition(partition_index=index, offset=0)]
        )
        request = DeleteRecordsRequest(topics=[records], timeout_ms=1000)
        async with connected(ruslo_cluster.bootstrap_of(elsewhere)) as client:
            response = await client.call(request, DeleteRecordsResponse)
        return ErrorCode(response.topics[0].partitions[0].error_code)

    assert asyncio.run(delete_records("single", 0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert asyncio.run(delete_records("single", 1)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert asyncio.run(delete_records("missing", 0)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_killed_leader_restarts(cluster: EmbeddedCluster) -> None:
    leader = cluster.leader_of("t")
    cluster.kill(leader)
    assert not cluster.is_running(leader)
    write(cluster, b"second")
    assert cluster.leader_of("t") != leader
    cluster.restart(leader)
    cluster.wait_until_in_sync()
    cluster.kill(*(each for each in cluster.node_ids if each != leader))
    cluster.start()
    assert read(cluster.bootstrap) == [b"first", b"second"]


def test_controlled_shutdown_of_the_controller(cluster: EmbeddedCluster) -> None:
    before = cluster.controller()
    cluster.stop(before)
    assert cluster.controller() != before
    write(cluster, b"second")
    cluster.restart(before)
    cluster.wait_until_in_sync("t")
    cluster.restart(before)
    assert cluster.is_running(before)
    assert read(cluster.bootstrap_of(before)) == [b"first", b"second"]


def test_paused_leader_is_replaced_and_acknowledges_nothing_when_it_resumes(
    cluster: EmbeddedCluster,
) -> None:
    leader = cluster.leader_of("t")
    cluster.pause(leader)
    cluster.pause(leader)
    assert cluster.is_running(leader)
    write(cluster, b"second")
    cluster.resume(leader)
    cluster.wait_until_in_sync("t")
    assert read(cluster.bootstrap) == [b"first", b"second"]


def test_a_paused_node_can_be_killed(cluster: EmbeddedCluster) -> None:
    leader = cluster.leader_of("t")
    cluster.pause(leader)
    cluster.kill(leader)
    write(cluster, b"second")
    cluster.restart(leader)
    cluster.wait_until_in_sync("t")


@pytest.mark.parametrize("one_way", [False, True])
def test_a_partitioned_leader_acknowledges_nothing(cluster: EmbeddedCluster, one_way: bool) -> None:
    leader = cluster.leader_of("t")
    cluster.partition(leader, one_way=one_way)
    outcomes: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_of(leader), "log_level": 0, "retries": 0})
    producer.produce("t", b"unacknowledged", on_delivery=lambda error, _: outcomes.append(error))
    while cluster.leader_of("t") == leader:
        time.sleep(0.05)
    write(cluster, b"second", to=cluster.bootstrap_of(cluster.leader_of("t")))
    cluster.heal()
    cluster.wait_until_in_sync("t")
    producer.flush(60)
    (outcome,) = outcomes
    expected = [b"first", b"second"] if outcome is not None else [b"first", b"second", b"unacknowledged"]
    assert read(cluster.bootstrap) == expected


def test_a_partitioned_coordinator_returns_no_offsets(cluster: EmbeddedCluster) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", **SHORT_TIMEOUTS}
    del settings["message.timeout.ms"]
    consumer = Consumer(settings)
    consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
    (coordinator,) = (node for node in (1, 2, 3) if fetch_offset(cluster, node) == (ErrorCode.NONE, 1))
    cluster.partition(coordinator)
    others = {1, 2, 3} - {coordinator}
    while not any(fetch_offset(cluster, node)[0] is ErrorCode.NONE for node in others):
        time.sleep(0.05)
    assert fetch_offset(cluster, coordinator) == (ErrorCode.NOT_COORDINATOR, -1)
    consumer.close()


def fetch_offset(cluster: EmbeddedCluster, node_id: int) -> tuple[ErrorCode, int]:
    """The committed offset of group g for t-0 on this node."""

    async def fetch() -> tuple[ErrorCode, int]:
        topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[topic])])
        async with connected(cluster.bootstrap_of(node_id)) as client:
            (group,) = (await client.call(request, OffsetFetchResponse, 9)).groups
        offset = group.topics[0].partitions[0].committed_offset if group.topics else -1
        return ErrorCode(group.error_code), offset

    return asyncio.run(fetch())


def test_invalid_operations_raise() -> None:
    with EmbeddedCluster(1) as cluster:
        with pytest.raises(ClusterNodeFailed, match="unknown node 7; the nodes are"):
            cluster.kill(7)
        with pytest.raises(ClusterNodeFailed, match="already running"):
            cluster.start(1)
        cluster.kill(1)
        cluster.kill(1)
        with pytest.raises(ClusterNodeFailed, match="is not running"):
            cluster.pause(1)


def test_minority_cannot_start_and_leaves_no_files() -> None:
    cluster = EmbeddedCluster(start_timeout_s=1)
    try:
        with pytest.raises(ClusterNodeFailed, match="Start a majority of the nodes"):
            cluster.start(1)
        assert not cluster.is_running(1)
    finally:
        cluster.close()
    assert not cluster.data_dir.exists()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ruslo node")]
