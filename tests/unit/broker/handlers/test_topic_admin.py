"""CreateTopics, DeleteTopics and CreatePartitions from the handler through the controller to the response."""

from __future__ import annotations

import pytest

from ruslo.broker.handlers import create_partitions, create_topics, delete_topics, forward
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import ZERO_UUID
from ruslo.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ruslo.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ruslo.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from tests.support.brokers.handlers import exchange
from tests.support.machines.controller_bench import admin_node


def create_request(*names: str, **settings: str) -> CreateTopicsRequest:
    configs = [
        CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in settings.items()
    ]
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=2, replication_factor=1, configs=configs)
            for name in names
        ]
    )


@pytest.mark.parametrize("version", range(2, 8))
async def test_create_in_every_version(version: int) -> None:
    async with admin_node() as node:
        response = await exchange(
            create_topics.handle, node, create_request("t", "a/b", retention_ms="5"), version
        )
        made, rejected = response.topics
        assert (made.name, made.error_code) == ("t", 0)
        assert ErrorCode(rejected.error_code) is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert rejected.error_message
        # The broker itself has already applied the topic.
        known = node.image.topics.by_name["t"]
        assert made.topic_id == (known.id if version >= 7 else ZERO_UUID)
        if version >= 5:
            assert (made.num_partitions, made.replication_factor) == (2, 1)
            values = {each.name: (each.value, each.config_source) for each in made.configs or []}
            assert values["retention.ms"] == ("5", 1)
            assert values["segment.bytes"] == ("1073741824", 5)
            assert rejected.configs == []


async def test_configs_are_those_of_the_controller() -> None:
    """A broker forwards the request: its own configs do not apply to the topic's other replicas."""
    async with (
        admin_node({"log.retention.ms": "70000"}) as active,
        admin_node({"log.retention.ms": "60000", "log.segment.bytes": "2000000"}) as broker,
    ):
        broker.gateway = active.gateway
        (made,) = (await exchange(forward.handle, broker, create_request("t", flush_ms="5"))).topics  # type: ignore[attr-defined]
        values = {each.name: (each.value, each.config_source) for each in made.configs or []}
        assert values["retention.ms"] == ("70000", 4)
        assert values["segment.bytes"] == ("1073741824", 5)
        assert values["flush.ms"] == ("5", 1)


async def test_create_without_controller() -> None:
    async with admin_node() as node:
        node.raft.resign()
        response = await exchange(create_topics.handle, node, create_request("a", "b"))
        assert [ErrorCode(each.error_code) for each in response.topics] == [ErrorCode.NOT_CONTROLLER] * 2


async def test_create_that_does_not_commit_in_time() -> None:
    async with admin_node() as node:
        node.raft.commits_automatically = False
        request = create_request("slow")
        request.timeout_ms = 1
        (response,) = (await exchange(create_topics.handle, node, request)).topics
        assert ErrorCode(response.error_code) is ErrorCode.REQUEST_TIMED_OUT
        assert "slow" not in node.image.topics.by_name
        node.raft.commits_automatically = True
        node.raft.commit()
        assert "slow" in node.image.topics.by_name, "the change itself is not undone"


@pytest.mark.parametrize("version", range(1, 7))
async def test_delete_in_every_version(version: int) -> None:
    async with admin_node() as node:
        await exchange(create_topics.handle, node, create_request("t", "u"))
        if version >= 6:
            u_id = node.image.topics.by_name["u"].id
            states = [
                DeleteTopicState(name="t"),
                DeleteTopicState(name="x"),
                DeleteTopicState(topic_id=u_id),
            ]
            request = DeleteTopicsRequest(topics=states)
        else:
            request = DeleteTopicsRequest(topic_names=["t", "x", "u"])
        response = await exchange(delete_topics.handle, node, request, version)
        assert [(each.name, ErrorCode(each.error_code).name) for each in response.responses] == [
            ("t", "NONE"),
            ("x", "UNKNOWN_TOPIC_OR_PARTITION"),
            ("u", "NONE"),
        ]
        assert node.image.topics.by_name == {}


@pytest.mark.parametrize(
    ("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)]
)
async def test_deletion_disabled(version: int, code: ErrorCode) -> None:
    async with admin_node({"delete.topic.enable": "false"}) as node:
        await exchange(create_topics.handle, node, create_request("t"))
        response = await exchange(delete_topics.handle, node, DeleteTopicsRequest(topic_names=["t"]), version)
        assert [ErrorCode(each.error_code) for each in response.responses] == [code]
        assert "t" in node.image.topics.by_name


@pytest.mark.parametrize("version", range(4))
async def test_create_partitions(version: int) -> None:
    async with admin_node() as node:
        await exchange(create_topics.handle, node, create_request("t"))
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(name="t", count=5, assignments=None),
                CreatePartitionsTopic(name="x", count=5, assignments=None),
            ],
            timeout_ms=1000,
        )
        response = await exchange(create_partitions.handle, node, request, version)
        assert [ErrorCode(each.error_code) for each in response.results] == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert len(node.image.topics.by_name["t"].partitions) == 5
        node.raft.resign()
        response = await exchange(create_partitions.handle, node, request, version)
        assert {ErrorCode(each.error_code) for each in response.results} == {ErrorCode.NOT_CONTROLLER}


def sized_request(*sizes: int, validate_only: bool = False) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(name=f"t{number}", num_partitions=size, replication_factor=1)
        for number, size in enumerate(sizes)
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=7, validate_only=validate_only)


def batch_sizes(request: CreateTopicsRequest) -> list[list[int]]:
    return [
        [topic.num_partitions for topic in batch.topics] for batch in create_topics.split_request(request, 6)
    ]


def test_thousands_of_partitions_are_created_in_batches() -> None:
    batches = create_topics.split_request(sized_request(*[100] * 40), 6)
    assert [sum(topic.num_partitions for topic in batch.topics) for batch in batches] == [200] * 20
    assert [topic.name for batch in batches for topic in batch.topics] == [
        f"t{number}" for number in range(40)
    ]
    assert {batch.timeout_ms for batch in batches} == {7}


def test_topic_is_never_split() -> None:
    assert batch_sizes(sized_request(1, 3000, 1, -1, 249)) == [[1], [3000], [1, -1], [249]]
    assert batch_sizes(sized_request(3)) == [[3]]
    assert batch_sizes(sized_request()) == [[]]


def test_related_topics_stay_in_one_batch() -> None:
    assert len(batch_sizes(sized_request(200, 200, validate_only=True))) == 1
    assert len(batch_sizes(sized_request(6000, 6000))) == 1
    duplicates = sized_request(200, 200, 200)
    duplicates.topics[2].name = "t0"
    assert len(batch_sizes(duplicates)) == 1


async def test_batches_have_one_response() -> None:
    async with admin_node() as node:
        request = sized_request(200, 200, 200)
        request.timeout_ms = 0
        request.topics[1].name = "not/valid"
        response = await exchange(create_topics.handle, node, request, 7)
        assert [(each.name, each.error_code) for each in response.topics] == [
            ("t0", 0),
            ("not/valid", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("t2", 0),
        ]
        assert {len(topic.partitions) for topic in node.metadata.image.topics.by_id.values()} == {200}
