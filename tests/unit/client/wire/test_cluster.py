from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from ruslo.client.admin.topics import NewTopic, Topics
from ruslo.client.wire.cluster import Cluster
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.net.errors import BrokerUnreachable, ConnectionLost
from ruslo.protocol.messages.create_topics_request import CreateTopicsRequest
from ruslo.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from ruslo.protocol.messages.list_offsets_request import ListOffsetsRequest
from ruslo.protocol.messages.metadata_request import MetadataRequest
from tests.support.brokers.scripted_broker import ReceivedRequest, ScriptedBroker, ScriptedResponse

T0 = TopicPartition("t", 0)


async def test_any_bootstrap_server_is_enough() -> None:
    async with ScriptedBroker() as broker, Cluster(f"127.0.0.1:1,127.0.0.1:{broker.port}") as cluster:
        assert (await cluster.metadata()).cluster_id == "scripted"


async def test_unreachable_servers_fail_at_once_with_all_addresses() -> None:
    async with Cluster("127.0.0.1:1,127.0.0.1:2", api_timeout_ms=60_000) as cluster:
        with pytest.raises(BrokerUnreachable) as caught:
            await cluster.retrying(lambda: cluster.metadata())
        assert caught.value.addresses == (("127.0.0.1", 1), ("127.0.0.1", 2))


async def test_a_server_that_is_not_a_broker_has_its_own_error() -> None:
    server = ScriptedBroker(lambda received: b"HTTP/1.1 400 Bad Request")
    async with server, Cluster(f"127.0.0.1:1,127.0.0.1:{server.port}") as cluster:
        with pytest.raises(ConnectionLost, match="this is HTTP"):
            await cluster.metadata()


async def test_a_connection_is_shared_and_replaced_when_lost() -> None:
    async with ScriptedBroker() as broker, Cluster(f"127.0.0.1:{broker.port}") as cluster:
        first = await asyncio.gather(*(cluster.connection(1) for _ in range(5)))
        assert broker.connections == 1
        await first[0].close()
        assert (await cluster.metadata()).cluster_id == "scripted"
        assert broker.connections == 2


async def test_partitions_are_grouped_by_leader() -> None:
    async with ScriptedBroker() as one, ScriptedBroker() as two:
        one.nodes = two.nodes = {1: one.port, 2: two.port}
        one.topics = two.topics = {"t": 2, "u": 1}
        async with Cluster(f"127.0.0.1:{one.port}") as cluster:
            assert await cluster.leaders([T0, TopicPartition("u", 0)]) == {
                2: [T0],
                1: [TopicPartition("u", 0)],
            }
            connection = await cluster.connection(2)
            assert connection.port == two.port
            with pytest.raises(KafkaError, match="broker 3 does not exist; brokers of the cluster: 1, 2"):
                await cluster.connection(3)
            with pytest.raises(KafkaError, match="partition t-7 does not exist"):
                await cluster.leaders([TopicPartition("t", 7)])
            with pytest.raises(KafkaError, match="topic 'x' does not exist"):
                await cluster.leaders([TopicPartition("x", 0)])


async def test_metadata_is_refreshed_after_a_leader_change() -> None:
    async with (
        ScriptedBroker() as broker,
        Cluster(f"127.0.0.1:{broker.port}", retry_backoff_ms=1) as cluster,
    ):
        broker.topics = {"t": 1}
        responses: list[KafkaError | str] = [KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER), "data"]

        async def fetch(node: int, owned: Sequence[TopicPartition]) -> dict[TopicPartition, KafkaError | str]:
            return {T0: responses.pop(0)}

        assert await cluster.each_leader([T0], fetch) == {T0: "data"}
        assert len(broker.requests_of(MetadataRequest.API_KEY)) == 2


async def test_only_failed_partitions_are_retried() -> None:
    async with (
        ScriptedBroker() as broker,
        Cluster(f"127.0.0.1:{broker.port}", retry_backoff_ms=1) as cluster,
    ):
        broker.topics = {"t": 1, "u": 1}
        rounds: list[list[TopicPartition]] = []
        u0 = TopicPartition("u", 0)

        async def fetch(node: int, owned: Sequence[TopicPartition]) -> dict[TopicPartition, KafkaError | int]:
            rounds.append(list(owned))
            late = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
            return {p: late if p == u0 and len(rounds) < 3 else len(rounds) for p in owned}

        assert await cluster.each_leader([T0, u0], fetch) == {T0: 1, u0: 3}
        assert rounds == [[T0, u0], [u0], [u0]]


async def test_an_error_that_is_not_retriable_is_raised() -> None:
    async with ScriptedBroker() as broker, Cluster(f"127.0.0.1:{broker.port}") as cluster:
        broker.topics = {"t": 1}

        async def fetch(node: int, owned: Sequence[TopicPartition]) -> dict[TopicPartition, KafkaError | int]:
            return {T0: KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)}

        with pytest.raises(KafkaError) as caught:
            await cluster.each_leader([T0], fetch)
        assert caught.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_retries_end_at_the_deadline() -> None:
    tries = 0

    async def attempt() -> None:
        nonlocal tries
        tries += 1
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "busy")

    cluster = Cluster("127.0.0.1:1", api_timeout_ms=100, retry_backoff_ms=5)
    with pytest.raises(KafkaError, match="busy"):
        await cluster.retrying(attempt)
    assert tries >= 2


async def test_a_response_without_a_requested_partition_is_an_error() -> None:
    async with ScriptedBroker() as broker:
        broker.topics = {"t": 1}
        async with Cluster(f"127.0.0.1:{broker.port}", api_timeout_ms=50, retry_backoff_ms=5) as cluster:

            async def fetch(node: int, owned: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
                return {}

            with pytest.raises(ConnectionLost, match="does not include t-0"):
                await cluster.each_leader([T0], fetch)


async def test_new_controller_is_looked_up() -> None:
    created = 0

    def script(received: ReceivedRequest) -> ScriptedResponse:
        nonlocal created
        if received.api_key != CreateTopicsRequest.API_KEY:
            raise KeyError
        created += 1
        code = ErrorCode.NOT_CONTROLLER if created == 1 else ErrorCode.NONE
        return CreateTopicsResponse(
            topics=[CreatableTopicResult(name="t", error_code=code, num_partitions=1)]
        )

    async with ScriptedBroker(script) as broker:
        broker.topics = {"t": 1}
        async with Cluster(f"127.0.0.1:{broker.port}", retry_backoff_ms=1) as cluster:
            results = await Topics(cluster).create([NewTopic("t")])
    assert not isinstance(results["t"], KafkaError)
    assert created == 2


async def test_list_offsets_is_sent_as_a_consumer() -> None:
    """The schema's default replica id is 0, which is a broker's."""
    from ruslo.client.admin.offsets import Offsets
    from ruslo.protocol.messages.list_offsets_response import (
        ListOffsetsPartitionResponse,
        ListOffsetsResponse,
        ListOffsetsTopicResponse,
    )

    def script(received: ReceivedRequest) -> ScriptedResponse:
        if received.api_key != ListOffsetsRequest.API_KEY:
            raise KeyError
        partition = ListOffsetsPartitionResponse(partition_index=0, offset=5, timestamp=9, leader_epoch=2)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[partition])])

    async with ScriptedBroker(script) as broker:
        broker.topics = {"t": 1}
        async with Cluster(f"127.0.0.1:{broker.port}") as cluster:
            found = await Offsets(cluster).find({T0: -1})
        request = broker.requests_of(ListOffsetsRequest.API_KEY)[0].message
    assert isinstance(request, ListOffsetsRequest)
    assert request.replica_id == -1
    assert found[T0] == (5, 9, 2)
