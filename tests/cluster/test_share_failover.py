"""kill -9 of partition leaders and share coordinators: records that were accepted stay accepted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.raw import RawClient
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid, uuid_to_text
from ruslo.model.topics import SHARE_STATE_TOPIC, TopicPartition
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from tests.support.brokers.live_node import batch_of
from tests.support.brokers.quorum import QuorumCluster
from tests.support.clients.raw_client import connected
from tests.support.share.share_client import ACCEPT, Acquired, ShareMember, initialize

PROPERTIES = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "group.share.min.record.lock.duration.ms": "2000",
    "group.share.record.lock.duration.ms": "2000",
}
WORK = TopicPartition("t", 0)
STATE = TopicPartition(SHARE_STATE_TOPIC, 0)
RECORDS = 120
STEP = 10


class Group:
    """One member after the other consumes, wherever the leader is."""

    def __init__(self, cluster: QuorumCluster, topic: Uuid) -> None:
        self._cluster = cluster
        self._topic = topic
        self.accepted: set[int] = set()

    @asynccontextmanager
    async def member(self) -> AsyncIterator[ShareMember]:
        node = await leader_of(self._cluster, WORK)
        async with connected(self._cluster.nodes[node].bootstrap) as client:
            yield ShareMember(client, self._topic)

    async def fetch(self, member: ShareMember) -> list[Acquired]:
        """Some records, of which none was accepted before."""
        while True:
            found = await member.fetch([0] if member.epoch == 0 else (), max_records=STEP, mode=1)
            assert member.error is ErrorCode.NONE, member.error
            acquired = found.acquired()
            delivered = {offset for first, last, _ in acquired for offset in range(first, last + 1)}
            assert not delivered & self.accepted, "accepted records were delivered again"
            if acquired:
                return acquired

    async def accept(self, member: ShareMember, acquired: Sequence[Acquired]) -> None:
        """Accept them; the response says that this is persisted."""
        batches = [(first, last, [ACCEPT]) for first, last, _ in acquired]
        assert await member.acknowledge({0: batches}) == {0: ErrorCode.NONE}
        self.accepted |= {offset for first, last, _ in acquired for offset in range(first, last + 1)}


async def leader_of(cluster: QuorumCluster, tp: TopicPartition) -> int:
    """The leader of a partition among the running nodes, once there is one."""
    while True:
        running = {node.node_id for node in cluster.running_brokers}
        try:
            async with Cluster(cluster.bootstrap) as client:
                (node,) = await client.leaders([tp])
            if node in running:
                return node
        except KafkaError:
            pass
        await asyncio.sleep(0.1)


async def prepared(cluster: QuorumCluster) -> Group:
    async with Admin(cluster.bootstrap) as admin:
        await admin.topics.create([NewTopic("t", 1, 3, {"min.insync.replicas": "2"})])
    async with Cluster(cluster.bootstrap) as client:
        topic = await client.topic_id("t")
        # The first request for a share coordinator creates the topic of the states.
        find = FindCoordinatorRequest(key_type=2, coordinator_keys=[f"g:{uuid_to_text(topic)}:0"])
        await client.any_broker(find, FindCoordinatorResponse)
        coordinator = await leader_of(cluster, STATE)
        async with connected(cluster.nodes[coordinator].bootstrap) as raw:
            await initialize(raw, topic)
        for number in range(RECORDS // STEP):
            values = [f"{number}-{at}".encode() for at in range(STEP)]
            await RawClient(client).produce({WORK: batch_of(*values)})
    return Group(cluster, topic)


@pytest.mark.timeout(240)
def test_accepted_records_survive_kill_9_of_leaders_and_share_coordinators(tmp_path: Path) -> None:
    with QuorumCluster(tmp_path, properties=PROPERTIES).start() as cluster:
        group = asyncio.run(prepared(cluster))
        for led in (WORK, STATE, WORK, STATE):
            victim = asyncio.run(consume_through_a_kill(cluster, group, led))
            cluster.nodes[victim].start()
        asyncio.run(consume_all(group))
        assert group.accepted == set(range(RECORDS))


async def consume_through_a_kill(cluster: QuorumCluster, group: Group, led: TopicPartition) -> int:
    """Kill the leader of a partition while a member holds records; returns its id."""
    async with group.member() as member:
        await group.accept(member, await group.fetch(member))
        held = await group.fetch(member)
        leader, victim = await leader_of(cluster, WORK), await leader_of(cluster, led)
        cluster.nodes[victim].kill()
        if victim != leader:
            # The share coordinator is gone: the acknowledgement waits for the next one.
            await group.accept(member, held)
    async with group.member() as member:
        await group.accept(member, await group.fetch(member))
    return victim


async def consume_all(group: Group) -> None:
    async with group.member() as member:
        while len(group.accepted) < RECORDS:
            await group.accept(member, await group.fetch(member))
