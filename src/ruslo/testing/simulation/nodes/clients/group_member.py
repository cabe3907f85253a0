"""A member of a consumer group (KIP-848) that changes its subscription and leaves without waiting."""

from __future__ import annotations

import asyncio

from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.coordinators import Coordinators
from ruslo.machines.groups.epoch_group import JOIN_EPOCH, LEAVE_EPOCH
from ruslo.model.errors import KafkaError
from ruslo.net.channel import Channel
from ruslo.net.errors import RequestTimedOut
from ruslo.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ruslo.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from ruslo.testing.simulation.nodes.clients.client import SimClient
from ruslo.testing.simulation.nodes.cluster import SimCluster
from ruslo.testing.simulation.txns.process import History

ALL_RESPONDED = "in a healthy cluster every heartbeat and every leave gets a response"
MAX_PAUSE_MS = 400
MAX_HEARTBEATS = 4
FINAL_MEMBERSHIPS = 3
_REBALANCE_MS = 30_000


class GroupMember(SimClient):
    invariant = ALL_RESPONDED

    def __init__(
        self, name: str, cluster: SimCluster, history: History, group_id: str, topics: list[str]
    ) -> None:
        super().__init__(name, cluster, history)
        self._group_id = group_id
        self._topics = topics

    async def run(self) -> None:
        while not self.stopping:
            try:
                async with self.connect() as cluster:
                    await self._join_and_leave(cluster)
            except KafkaError:
                await self.pause(MAX_PAUSE_MS)
        async with self.connect(with_long_timeout=True) as cluster:
            for _ in range(FINAL_MEMBERSHIPS):
                try:
                    await self._join_and_leave(cluster)
                except RequestTimedOut as error:
                    self.problems.append(str(error))
                except KafkaError:
                    # The coordinator may have moved, and its state of the group may have changed.
                    await self.pause(MAX_PAUSE_MS)

    async def _join_and_leave(self, cluster: Cluster) -> None:
        """Join, change the subscription sometimes, leave."""
        coordinator = await cluster.connection(await Coordinators(cluster).find(self._group_id))
        member_id = self.random.randbytes(16).hex()
        epoch, owned = JOIN_EPOCH, list[TopicPartitions]()
        for _ in range(self.random.randint(1, MAX_HEARTBEATS)):
            request = self._heartbeat(member_id, epoch, owned)
            response = await coordinator.request(request, ConsumerGroupHeartbeatResponse)
            if response.error_code:
                return
            epoch = response.member_epoch
            if response.assignment is not None:
                owned = [
                    TopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                    for each in response.assignment.topic_partitions
                ]
            await self.pause(MAX_PAUSE_MS)
        requests = [self._leave(member_id)]
        if self.random.random() < 0.5:
            # As when a consumer is closed before the response to its last heartbeat.
            requests.insert(0, self._heartbeat(member_id, epoch, owned))
        await _send_all(coordinator, requests)

    def _heartbeat(
        self, member_id: str, epoch: int, owned: list[TopicPartitions]
    ) -> ConsumerGroupHeartbeatRequest:
        by_pattern = self.random.random() < 0.3
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=_REBALANCE_MS,
            subscribed_topic_names=[]
            if by_pattern
            else self.random.sample(self._topics, self.random.randint(1, len(self._topics))),
            subscribed_topic_regex="[a-z]*" if by_pattern else "",
            topic_partitions=owned,
        )

    def _leave(self, member_id: str) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=member_id, member_epoch=LEAVE_EPOCH
        )


async def _send_all(connection: Channel, requests: list[ConsumerGroupHeartbeatRequest]) -> None:
    """Send the requests back to back, without waiting for responses in between."""
    sent = [
        asyncio.create_task(connection.request(request, ConsumerGroupHeartbeatResponse))
        for request in requests
    ]
    for outcome in await asyncio.gather(*sent, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
