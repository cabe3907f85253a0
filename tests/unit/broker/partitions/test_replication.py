"""A node that leads partitions which a second broker, played by the test, replicates."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from ruslo.broker.drivers.lifecycle import SECURITY_PROTOCOL_IDS
from ruslo.machines.controller.features import SUPPORTED_FEATURES
from ruslo.model.errors import ErrorCode
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
from ruslo.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse
from tests.support.live_node import LiveNode, batch_of, live_node, records_in, run, until
from tests.support.raw_client import RawClient, connected

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

    async def fetch(self, topic_id: Uuid, offset: int, *, epoch: int | None = None) -> PartitionData:
        request = self.request(topic_id, offset, epoch=epoch)
        (topic,) = (await self._client.call(request, FetchResponse)).responses
        return topic.partitions[0]

    def request(self, topic_id: Uuid, *offsets: int, epoch: int | None = None) -> FetchRequest:
        """For partition 0 at each of these offsets: one, or none in a session that knows it."""
        listed = [
            FetchPartition(
                partition=0,
                current_leader_epoch=0,
                fetch_offset=offset,
                last_fetched_epoch=0 if offset else -1,
                log_start_offset=0,
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
    """With a topic "t" of one partition on both, led by the node."""
    async with (
        live_node(path, {"replica.lag.time.max.ms": lag_ms, "replica.fetch.wait.max.ms": "100"}) as node,
        connected(node.bootstrap) as client,
    ):
        second = SecondBroker(node, client)
        await second.register()
        configs = [CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in settings.items()]
        topic = CreatableTopic(
            name="t",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[NODE, SECOND])],
            configs=configs,
        )
        (result,) = (
            await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), CreateTopicsResponse)
        ).topics
        assert result.error_code == 0, result.error_message
        yield node, second, result.topic_id
        # A node that stops waits until the others have heard of it, and this one never does.
        await second.heartbeat(want_fence=True)


async def isr_becomes(node: LiveNode, *members: int) -> None:
    await until(lambda: node.node.metadata.image.topics.by_name["t"].partitions[0].isr == members)


def produced(answer: ProduceResponse) -> PartitionProduceResponse:
    return answer.responses[0].partition_responses[0]


def test_acks_all_waits_for_the_follower_and_acks_1_does_not(tmp_path: Path) -> None:
    async def story() -> None:
        async with two_brokers(tmp_path) as (node, second, topic_id), connected(node.bootstrap) as client:
            log = node.partition().log
            client.send(node.produce_request({("t", 0): batch_of(b"one")}))
            await until(lambda: log.end_offset == 1)
            assert log.high_watermark == 0
            data = await second.fetch(topic_id, 0)
            assert [record.value for record in records_in(data.records)] == [b"one"]
            assert log.high_watermark == 0, "it has asked for the record, but does not have it"
            await second.fetch(topic_id, 1)
            answer = produced(await client.receive(ProduceResponse))
            assert (answer.error_code, answer.base_offset) == (0, 0)
            assert log.high_watermark == 1
            at_once = produced(
                await client.call(node.produce_request({("t", 0): batch_of(b"two")}, acks=1), ProduceResponse)
            )
            assert (at_once.error_code, at_once.base_offset) == (0, 1)
            assert (await node.fetch(client, 1)).records in (None, b""), "consumers wait for the follower"

    run(story())


def test_a_session_tells_a_follower_what_has_moved_and_nothing_twice(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            two_brokers(tmp_path) as (node, second, topic_id),
            connected(node.bootstrap) as client,
            connected(node.bootstrap) as follower,
        ):
            session = 0

            async def told(
                session_epoch: int, *offsets: int, max_wait_ms: int = 0, epoch: int | None = None
            ) -> list[tuple[str, int, list[bytes | None]]]:
                """Error, high watermark and values of each partition in the answer."""
                nonlocal session
                request = second.request(topic_id, *offsets, epoch=epoch)
                request.session_id, request.session_epoch = session, session_epoch
                request.max_wait_ms, request.min_bytes = max_wait_ms, 1
                answer = await follower.call(request, FetchResponse)
                assert answer.error_code == 0
                session = answer.session_id
                return [
                    (
                        ErrorCode(each.error_code).name,
                        each.high_watermark,
                        [record.value for record in records_in(each.records)],
                    )
                    for topic in answer.responses
                    for each in topic.partitions
                ]

            assert await told(0, 0) == [("NONE", 0, [])], "a full request is told everything"
            assert await told(1) == []
            waiting = asyncio.create_task(told(2, max_wait_ms=20_000))
            replication = node.partition().replication
            assert replication is not None
            await until(lambda: len(replication.readers) == 1)
            client.send(node.produce_request({("t", 0): batch_of(b"one")}))
            assert await waiting == [("NONE", 0, [b"one"])]
            assert await told(3, 1) == [("NONE", 1, [])], "its own ack has moved the high watermark"
            assert produced(await client.receive(ProduceResponse)).error_code == 0
            assert await told(4) == []
            newer = second.epoch + 1
            assert await told(5, epoch=newer) == []
            assert await told(6) == [("NOT_LEADER_OR_FOLLOWER", -1, [])], "that registration is over"
            assert await told(7, epoch=newer) == [("NONE", 1, [])], "told again, so that the error is over"

    run(story())


def test_acks_all_times_out_but_the_record_stays(tmp_path: Path) -> None:
    async def story() -> None:
        async with two_brokers(tmp_path) as (node, second, topic_id), connected(node.bootstrap) as client:
            request = node.produce_request({("t", 0): batch_of(b"one")}, timeout_ms=20)
            answer = produced(await client.call(request, ProduceResponse))
            assert ErrorCode(answer.error_code) is ErrorCode.REQUEST_TIMED_OUT
            await second.fetch(topic_id, 1)
            assert [r.value for r in records_in((await node.fetch(client, 0)).records)] == [b"one"]

    run(story())


def test_a_follower_that_falls_silent_leaves_the_isr_and_comes_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            two_brokers(tmp_path, "400") as (node, second, topic_id),
            connected(node.bootstrap) as client,
        ):
            await second.fetch(topic_id, 0)
            client.send(node.produce_request({("t", 0): batch_of(b"one")}, timeout_ms=20_000))
            await isr_becomes(node, NODE)
            answer = produced(await client.receive(ProduceResponse))
            assert answer.error_code == 0, "with the follower out of the ISR the leader's copy is enough"
            await second.fetch(topic_id, 0)
            await asyncio.sleep(0.05)
            assert node.partition().replication is not None
            assert node.node.metadata.image.topics.by_name["t"].partitions[0].isr == (NODE,)
            await second.fetch(topic_id, 1)
            await isr_becomes(node, NODE, SECOND)

    run(story())


def test_fewer_in_sync_replicas_than_promised_refuse_acks_all(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            two_brokers(tmp_path, "400", min_insync_replicas="2") as (node, second, topic_id),
            connected(node.bootstrap) as client,
        ):
            client.send(node.produce_request({("t", 0): batch_of(b"one")}, timeout_ms=1500))
            await isr_becomes(node, NODE)
            late = produced(await client.receive(ProduceResponse))
            assert ErrorCode(late.error_code) is ErrorCode.REQUEST_TIMED_OUT, (
                "the high watermark stands still"
            )
            assert node.partition().log.high_watermark == 0
            refused = produced(
                await client.call(node.produce_request({("t", 0): batch_of(b"two")}), ProduceResponse)
            )
            assert ErrorCode(refused.error_code) is ErrorCode.NOT_ENOUGH_REPLICAS
            assert "min.insync.replicas is 2" in (refused.error_message or "")
            assert node.partition().log.end_offset == 1
            unsafe = produced(
                await client.call(node.produce_request({("t", 0): batch_of(b"3")}, acks=1), ProduceResponse)
            )
            assert unsafe.error_code == 0
            await second.fetch(topic_id, 2)
            await isr_becomes(node, NODE, SECOND)
            await until(lambda: node.partition().log.high_watermark == 2)

    run(story())


def test_who_may_fetch_as_a_replica(tmp_path: Path) -> None:
    async def story() -> None:
        async with two_brokers(tmp_path) as (_, second, topic_id):
            await second.fetch(topic_id, 0)
            old = await second.fetch(topic_id, 0, epoch=second.epoch - 1)
            assert ErrorCode(old.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER, "KIP-903"
            assert (await second.fetch(topic_id, 0)).error_code == 0

    run(story())


def test_a_fenced_broker_is_out_of_the_isr_and_not_taken_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with two_brokers(tmp_path) as (node, second, topic_id), connected(node.bootstrap) as client:
            await second.heartbeat(want_fence=True)
            await isr_becomes(node, NODE)
            assert (await node.produce(client, batch_of(b"one"))).error_code == 0
            await second.fetch(topic_id, 1)
            await asyncio.sleep(0.05)
            assert node.node.metadata.image.topics.by_name["t"].partitions[0].isr == (NODE,)
            await second.heartbeat()
            await second.fetch(topic_id, 1)
            await isr_becomes(node, NODE, SECOND)

    run(story())
