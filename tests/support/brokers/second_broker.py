"""A node that leads partitions, and a second broker, simulated by the test, that replicates them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from ruslo.broker.controller.broker_lifecycle import SECURITY_PROTOCOL_IDS
from ruslo.machines.controller.features import SUPPORTED_FEATURES
from ruslo.model.ids import Uuid, random_uuid
from ruslo.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ruslo.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from ruslo.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from ruslo.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from ruslo.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ruslo.protocol.messages.create_topics_response import CreateTopicsResponse
from ruslo.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ruslo.protocol.messages.fetch_response import FetchResponse, PartitionData
from tests.support.brokers.live_node import LiveNode, live_node
from tests.support.clients.raw_client import RawClient, connected

NODE, SECOND = 1, 2


class SecondBroker:
    """Registered and unfenced; it replicates what the test makes it fetch."""

    def __init__(self, node: LiveNode, client: RawClient) -> None:
        self._node = node
        self._client = client
        self.epoch = -1

    async def register(self) -> None:
        node = self._node.node
        response = await node.gateway.submit(
            BrokerRegistrationRequest(
                broker_id=SECOND,
                cluster_id=node.cluster_id,
                incarnation_id=random_uuid(),
                listeners=[
                    Listener(
                        name="PLAINTEXT",
                        host="127.0.0.1",
                        port=9,
                        security_protocol=SECURITY_PROTOCOL_IDS["PLAINTEXT"],
                    )
                ],
                features=[
                    Feature(name=name, min_supported_version=low, max_supported_version=high)
                    for name, (low, high) in SUPPORTED_FEATURES.items()
                ],
                log_dirs=[random_uuid()],
            )
        )
        assert isinstance(response, BrokerRegistrationResponse)
        self.epoch = response.broker_epoch
        await self.heartbeat()

    async def heartbeat(self, *, want_fence: bool = False) -> None:
        node = self._node.node
        request = BrokerHeartbeatRequest(
            broker_id=SECOND,
            broker_epoch=self.epoch,
            current_metadata_offset=node.metadata.image.offset,
            want_fence=want_fence,
        )
        response = await node.gateway.submit(request)
        assert isinstance(response, BrokerHeartbeatResponse)
        assert response.is_fenced is want_fence

    async def create_topic(self, name: str, configs: Sequence[CreatableTopicConfig] = ()) -> Uuid:
        """Create a topic of one partition with replicas on both brokers, led by the node."""
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[NODE, SECOND])],
            configs=list(configs),
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
        (result,) = (await self._client.call(request, CreateTopicsResponse)).topics
        assert result.error_code == 0, result.error_message
        return result.topic_id

    async def fetch(
        self, topic_id: Uuid, offset: int, *, epoch: int | None = None, log_start: int = 0
    ) -> PartitionData:
        request = self.request(topic_id, offset, epoch=epoch, log_start=log_start)
        (topic,) = (await self._client.call(request, FetchResponse)).responses
        return topic.partitions[0]

    def request(
        self, topic_id: Uuid, *offsets: int, epoch: int | None = None, log_start: int = 0
    ) -> FetchRequest:
        """A fetch of partition 0 at this offset; without an offset, of a session that has the partition."""
        listed = [
            FetchPartition(
                partition=0,
                current_leader_epoch=0,
                fetch_offset=offset,
                last_fetched_epoch=0 if offset else -1,
                log_start_offset=log_start,
                partition_max_bytes=1 << 20,
            )
            for offset in offsets
        ]
        return FetchRequest(
            replica_state=ReplicaState(
                replica_id=SECOND, replica_epoch=self.epoch if epoch is None else epoch
            ),
            topics=[FetchTopic(topic_id=topic_id, partitions=listed)] if listed else [],
        )


@contextlib.asynccontextmanager
async def two_brokers(
    path: Path, lag_ms: str = "30000", **settings: str
) -> AsyncIterator[tuple[LiveNode, SecondBroker, Uuid]]:
    """Yields both brokers, with a topic "t" of one partition on both, led by the node."""
    async with (
        live_node(path, {"replica.lag.time.max.ms": lag_ms, "replica.fetch.wait.max.ms": "100"}) as node,
        connected(node.bootstrap) as client,
    ):
        second = SecondBroker(node, client)
        await second.register()
        configs = [CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in settings.items()]
        yield node, second, await second.create_topic("t", configs)
        # A controlled shutdown waits until the other brokers know of it, and this one never does.
        await second.heartbeat(want_fence=True)
