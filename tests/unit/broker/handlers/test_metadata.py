"""Metadata in all versions: topics, brokers, errors, automatic topic creation."""

from __future__ import annotations

import asyncio
from inspect import isawaitable
from types import SimpleNamespace

import pytest

from ruslo.broker.handlers import metadata
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.scheduling import scheduler
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.message import Message
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ruslo.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ruslo.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ruslo.protocol.messages.metadata_response import MetadataResponse
from ruslo.protocol.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from tests.support.brokers.handlers import exchange
from tests.support.brokers.live_node import until
from tests.support.machines.controller_bench import (
    CLUSTER_ID,
    AdminNode,
    admin_node,
    broker_config,
    numbered_uuid,
)


async def create(node: AdminNode, *names: str, partitions: int = 1) -> None:
    topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    await node.controller.submit(CreateTopicsRequest(topics=topics))


def metadata_request(*names: str, create: bool = False) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create)


def errors(response: MetadataResponse) -> dict[str | None, ErrorCode]:
    return {topic.name: ErrorCode(topic.error_code) for topic in response.topics}


@pytest.mark.parametrize("version", range(14))
async def test_every_version(version: int) -> None:
    async with admin_node() as node:
        await create(node, "a", "b", partitions=2)
        request = MetadataRequest(topics=[] if version == 0 else None)
        if version < 4:
            request.allow_auto_topic_creation = True
        response = await exchange(metadata.handle, node, request, version)
        assert [(each.node_id, each.host, each.port) for each in response.brokers] == [(1, "localhost", 9092)]
        assert errors(response) == {"a": ErrorCode.NONE, "b": ErrorCode.NONE}
        for topic in response.topics:
            assert [
                (
                    each.partition_index,
                    each.leader_id,
                    each.replica_nodes,
                    each.isr_nodes,
                    each.error_code,
                )
                for each in topic.partitions
            ] == [(0, 1, [1], [1], 0), (1, 1, [1], [1], 0)]
        assert response.cluster_id == (CLUSTER_ID if version >= 2 else None)
        assert response.controller_id == (1 if version >= 1 else -1)
        if version >= 10:
            assert response.topics[0].topic_id == node.image.topics.by_name["a"].id
        # The second response comes from the cache.
        assert await exchange(metadata.handle, node, request, version) == response


async def test_dead_leader_is_not_named() -> None:
    """A client would try to connect to the dead leader, but it requests metadata again without a leader."""
    async with admin_node() as node:
        await create(node, "a")
        before = await exchange(metadata.handle, node, metadata_request("a"))
        node.topic_responses.lost_leaders = lambda: {1}
        response = await exchange(metadata.handle, node, metadata_request("a"))
        assert response.brokers == []
        (partition,) = response.topics[0].partitions
        assert partition.leader_id == -1
        assert ErrorCode(partition.error_code) is ErrorCode.LEADER_NOT_AVAILABLE
        assert partition.isr_nodes == [1]
        node.topic_responses.lost_leaders = frozenset
        assert await exchange(metadata.handle, node, metadata_request("a")) == before


async def test_responses_about_thousands_of_partitions_are_built_in_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Changes between slices are included: the response shows the metadata of its last slice."""
    monkeypatch.setattr(scheduler, "SLICE_NS", 0)
    names = [f"t{number}" for number in range(8)]
    async with admin_node() as node:
        await create(node, *names, partitions=metadata.MANY_PARTITIONS // 4)
        request, context = MetadataRequest(topics=None), RequestContext(api_version=12)
        pending_response = metadata.handle(node, request, context)  # type: ignore[arg-type]
        assert isawaitable(pending_response)
        task = asyncio.ensure_future(pending_response)
        for _ in range(3):
            await asyncio.sleep(0)
        assert not task.done()
        await node.controller.submit(DeleteTopicsRequest(topic_names=["t0", "t7"]))
        await create(node, "t0", partitions=3)
        response = await task
        assert {topic.name: len(topic.partitions) for topic in response.topics} == {
            name: len(topic.partitions) for name, topic in node.image.topics.by_name.items()
        }
        again = metadata.handle(node, request, context)  # type: ignore[arg-type]
        assert again == response, "the cached response is returned at once"
        named = metadata.handle(node, metadata_request(*names[1:7]), context)  # type: ignore[arg-type]
        assert isinstance(named, MetadataResponse)
        node.topic_responses.lost_leaders = lambda: {1}
        leaderless = await exchange(metadata.handle, node, metadata_request(*names[1:7]))
        assert {each.leader_id for topic in leaderless.topics for each in topic.partitions} == {-1}


async def test_no_topics_requested() -> None:
    async with admin_node() as node:
        await create(node, "a")
        assert (await exchange(metadata.handle, node, MetadataRequest(topics=[]), 1)).topics == []


async def test_by_id() -> None:
    async with admin_node() as node:
        await create(node, "a")
        topic_id = node.image.topics.by_name["a"].id
        request = MetadataRequest(
            topics=[
                MetadataRequestTopic(name=None, topic_id=topic_id),
                MetadataRequestTopic(name=None, topic_id=numbered_uuid(99)),
            ]
        )
        known, unknown = (await exchange(metadata.handle, node, request, 12)).topics
        assert (known.name, known.error_code) == ("a", 0)
        assert (unknown.name, unknown.topic_id) == (None, numbered_uuid(99))
        assert ErrorCode(unknown.error_code) is ErrorCode.UNKNOWN_TOPIC_ID
        rejected = (await exchange(metadata.handle, node, request, 11)).topics
        assert [ErrorCode(each.error_code) for each in rejected] == [ErrorCode.INVALID_REQUEST] * 2


async def test_topic_id_takes_precedence_over_the_name() -> None:
    async with admin_node() as node:
        await create(node, "a")
        request = MetadataRequest(
            topics=[
                # The topic was deleted and recreated under its name.
                MetadataRequestTopic(name="a", topic_id=numbered_uuid(99)),
                MetadataRequestTopic(name="b", topic_id=node.image.topics.by_name["a"].id),
            ],
            allow_auto_topic_creation=True,
        )
        unknown, known = (await exchange(metadata.handle, node, request, 13)).topics
        assert ErrorCode(unknown.error_code) is ErrorCode.UNKNOWN_TOPIC_ID
        assert (unknown.name, unknown.topic_id) == (None, numbered_uuid(99))
        assert (known.name, known.error_code) == ("a", 0)
        assert list(node.image.topics.by_name) == ["a"]


async def creations_done(node: AdminNode) -> None:
    """Wait until no topic is being created."""
    async with asyncio.timeout(30):
        while node.topics_in_creation:  # noqa: ASYNC110 (has no event)
            await asyncio.sleep(0)


async def test_response_does_not_wait_for_the_creation() -> None:
    async with admin_node({"num.partitions": "3"}) as node:
        unknown = {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        response = await exchange(metadata.handle, node, metadata_request("new", "a/b", create=True))
        assert errors(response) == unknown | {"a/b": ErrorCode.INVALID_TOPIC_EXCEPTION}
        await creations_done(node)
        response = await exchange(metadata.handle, node, metadata_request("new", create=True))
        assert errors(response) == {"new": ErrorCode.NONE}
        assert len(response.topics[0].partitions) == 3
        # Versions below 4 always allow the creation.
        assert errors(await exchange(metadata.handle, node, metadata_request("old", create=True), 1)) == {
            "old": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
        await creations_done(node)
        assert errors(
            await exchange(metadata.handle, node, metadata_request("never", "__consumer_offsets"))
        ) == {
            "never": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "__consumer_offsets": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        # The coordinator creates this topic with its own configs.
        assert errors(
            await exchange(metadata.handle, node, metadata_request("__consumer_offsets", create=True))
        ) == {"__consumer_offsets": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        await creations_done(node)
        assert set(node.image.topics.by_name) == {"new", "old"}


@pytest.mark.parametrize(
    ("own", "partitions"), [({}, 2), ({"num.partitions": "3"}, 3), ({"default.replication.factor": "1"}, 2)]
)
async def test_topic_is_created_with_the_defaults_of_the_broker(own: dict[str, str], partitions: int) -> None:
    """The controller's ``num.partitions`` is 2."""
    async with admin_node({"num.partitions": "2"}) as node:
        node.config = broker_config(own)
        await exchange(metadata.handle, node, metadata_request("new", create=True))
        await until(lambda: "new" in node.image.topics.by_name)
        assert len(node.image.topics.by_name["new"].partitions) == partitions


@pytest.mark.parametrize(
    "settings", [{"auto.create.topics.enable": "false"}, {"default.replication.factor": "3"}]
)
async def test_invalid_topics_are_not_created(settings: dict[str, str]) -> None:
    async with admin_node(settings) as node:
        for _ in range(2):
            response = await exchange(metadata.handle, node, metadata_request("new", create=True))
            assert errors(response) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            await creations_done(node)
        assert not node.image.topics.by_name


async def test_creation_without_a_controller() -> None:
    async with admin_node() as node:
        node.raft.resign()
        response = await exchange(metadata.handle, node, metadata_request("new", create=True))
        assert errors(response) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert response.controller_id == 1, "any active broker, which would forward requests"
        await creations_done(node)


async def test_creation_is_requested_once() -> None:
    """The controller gets one request for a topic, however many clients request it during the creation."""
    async with admin_node() as node:
        sent: list[list[str]] = []
        pending: list[asyncio.Future[Message]] = []

        def send(request: CreateTopicsRequest, context: RequestContext) -> asyncio.Future[Message]:
            sent.append([topic.name for topic in request.topics])
            pending.append(asyncio.get_running_loop().create_future())
            return pending[-1]

        services = SimpleNamespace(**{**vars(node), "gateway": SimpleNamespace(forward=send)})
        for names in (("a",), ("a",), ("a", "b")):
            response = await exchange(metadata.handle, services, metadata_request(*names, create=True))
            assert errors(response) == dict.fromkeys(names, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert sent == [["a"], ["b"]]
        pending[0].set_exception(KafkaError(ErrorCode.NOT_CONTROLLER, "none has been elected"))
        pending[1].cancel()
        await creations_done(node)
        await exchange(metadata.handle, services, metadata_request("a", create=True))
        assert sent == [["a"], ["b"], ["a"]]


async def test_fenced_broker_is_not_named_as_leader() -> None:
    async with admin_node() as node:
        await create(node, "t")
        await node.lifecycle.shut_down()
        response = await exchange(metadata.handle, node, metadata_request("t"))
        (partition,) = response.topics[0].partitions
        assert ErrorCode(partition.error_code) is ErrorCode.LEADER_NOT_AVAILABLE
        assert (partition.leader_id, partition.offline_replicas) == (-1, [1])
        assert response.brokers == []
        assert response.controller_id == -1


async def test_leader_without_this_listener() -> None:
    async with admin_node() as node:
        await create(node, "t")
        codes = {}
        for version in (5, 6):
            response = await exchange(
                metadata.handle, node, metadata_request("t", create=True), version, "INTERNAL"
            )
            codes[version] = ErrorCode(response.topics[0].partitions[0].error_code)
            assert response.brokers == []
        assert codes == {5: ErrorCode.LEADER_NOT_AVAILABLE, 6: ErrorCode.LISTENER_NOT_FOUND}


async def test_cached_responses_follow_the_image() -> None:
    async with admin_node() as node:
        await create(node, "t")
        assert len((await exchange(metadata.handle, node, metadata_request("t"))).topics[0].partitions) == 1
        broker = node.image.cluster.brokers[1]
        moved = RegisterBrokerRecord(
            broker_id=1,
            broker_epoch=broker.epoch,
            incarnation_id=broker.incarnation_id,
            end_points=[BrokerEndpoint(name="OTHER", host="h", port=1)],
            rack=None,
            fenced=False,
        )
        node.metadata.handle_commit(node.image.offset + 1, 1, [moved])
        (partition,) = (await exchange(metadata.handle, node, metadata_request("t"))).topics[0].partitions
        assert ErrorCode(partition.error_code) is ErrorCode.LISTENER_NOT_FOUND


async def test_authorized_operations_only_on_request() -> None:
    async with admin_node() as node:
        await create(node, "t")
        request = metadata_request("t")
        plain = await exchange(metadata.handle, node, request, 8)
        assert plain.topics[0].topic_authorized_operations == -(2**31)
        assert plain.cluster_authorized_operations == -(2**31)
        request.include_topic_authorized_operations = True
        request.include_cluster_authorized_operations = True
        full = await exchange(metadata.handle, node, request, 8)
        assert full.topics[0].topic_authorized_operations == 0b1101_1111_1000
        assert full.cluster_authorized_operations == 0b1_1111_1010_0000
