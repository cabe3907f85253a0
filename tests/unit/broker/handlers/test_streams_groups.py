"""The APIs of streams groups through a whole node: internal topics, permissions, every version."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ruslo.client.admin.acls import Acls
from ruslo.client.wire.cluster import Cluster
from ruslo.machines.groups.streams.describe import DescriptionStatus
from ruslo.machines.groups.streams.status import StatusCode
from ruslo.machines.groups.streams.target import MAX_INLINE_TASKS
from ruslo.model.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from ruslo.protocol.messages.streams_group_describe_response import StreamsGroupDescribeResponse
from ruslo.protocol.messages.streams_group_heartbeat_request import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    TopicInfo,
    Topology,
)
from ruslo.protocol.messages.streams_group_heartbeat_response import Status, StreamsGroupHeartbeatResponse
from ruslo.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from ruslo.protocol.messages.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from tests.support.brokers.live_node import LiveNode, live_node
from tests.support.clients.raw_client import RawClient, connected
from tests.support.groups.group_requests import find_coordinator
from tests.support.groups.streams_transcript import counting_topology, stateless_topology, subtopology

PROPERTIES = {
    "offsets.topic.num.partitions": "2",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}
AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
ANONYMOUS = "User:ANONYMOUS"


@asynccontextmanager
async def ready_node(directory: Path, **properties: str) -> AsyncIterator[tuple[LiveNode, RawClient]]:
    settings = {**PROPERTIES, **properties}
    async with live_node(directory, settings) as node, connected(node.bootstrap) as client:
        await node.create("orders", partitions=3)
        assert (await find_coordinator(client, "g")).error_code == 0
        yield node, client


def joining(topology: Topology, **fields: Any) -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=10_000,
        topology=topology,
        process_id="p",
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        client_tags=[],
        **fields,
    )


async def beat(
    client: RawClient, request: StreamsGroupHeartbeatRequest, version: int = 1
) -> StreamsGroupHeartbeatResponse:
    return await client.call(request, StreamsGroupHeartbeatResponse, version)


def missing(response: StreamsGroupHeartbeatResponse) -> Status | None:
    statuses = response.status or []
    return next((each for each in statuses if each.status_code == StatusCode.MISSING_INTERNAL_TOPICS), None)


@pytest.mark.parametrize("version", [0, 1])
async def test_missing_internal_topics_are_created(tmp_path: Path, version: int) -> None:
    async with ready_node(tmp_path) as (node, client):
        topology = counting_topology()
        topology.subtopologies[1].state_changelog_topics[0].topic_configs = [
            KeyValue(key="cleanup.policy", value="compact")
        ]
        response = await beat(client, joining(topology), version)
        assert missing(response) is not None
        request = StreamsGroupHeartbeatRequest(group_id="g", member_id="m")
        while missing(response) is not None:
            request.member_epoch = response.member_epoch
            response = await beat(client, request, version)
        assert [each.partitions for each in response.active_tasks or ()] == [[0, 1, 2], [0, 1, 2]]
        image = node.node.metadata.image
        assert len(image.topics.by_name["r"].partitions) == 3
        assert len(image.topics.by_name["c"].partitions) == 3
        described = await client.call(
            StreamsGroupDescribeRequest(group_ids=["g", "h"], include_authorized_operations=True),
            StreamsGroupDescribeResponse,
            version,
        )
        by_id = {each.group_id: each for each in described.groups}
        assert by_id["g"].group_state == "Stable"
        assert by_id["g"].authorized_operations > 0
        assert by_id["h"].error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_topic_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    async with ready_node(tmp_path) as (_, client):
        topology = counting_topology()
        topology.subtopologies[1].state_changelog_topics[0].replication_factor = 7
        response = await beat(client, joining(topology))
        request = StreamsGroupHeartbeatRequest(group_id="g", member_id="m")
        while (
            status := missing(response)
        ) is not None and "could not be created" not in status.status_detail:
            request.member_epoch = response.member_epoch
            response = await beat(client, request)
        assert status is not None
        assert "c (" in status.status_detail


async def test_many_tasks_are_assigned_outside_the_event_loop(tmp_path: Path) -> None:
    partitions = MAX_INLINE_TASKS + 1
    async with ready_node(tmp_path) as (node, client):
        await node.create("wide", partitions=partitions)
        response = await beat(client, joining(stateless_topology("wide")))
        assert [each.status_code for each in response.status or ()] == [StatusCode.ASSIGNMENT_DELAYED]
        request = StreamsGroupHeartbeatRequest(group_id="g", member_id="m")
        while not response.active_tasks:
            request.member_epoch = response.member_epoch
            response = await beat(client, request)
        assert [len(each.partitions) for each in response.active_tasks] == [partitions]


@pytest.mark.parametrize("name", ["__consumer_offsets", "a b", ""])
async def test_topologies_with_other_topic_names_are_rejected(tmp_path: Path, name: str) -> None:
    async with ready_node(tmp_path) as (_, client):
        topology = Topology(subtopologies=[subtopology("0", "orders", writes=[name])])
        response = await beat(client, joining(topology))
        assert response.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
        assert response.error_message


async def test_permissions(tmp_path: Path) -> None:
    async with ready_node(tmp_path, **AUTHORIZED) as (node, client):

        async def add(permission: Permission, operation: Operation, kind: ResourceType, name: str) -> None:
            acl = Acl(kind, name, PatternType.LITERAL, ANONYMOUS, "*", operation, permission)
            async with Cluster(node.bootstrap) as cluster:
                await Acls(cluster).create([acl])

        async def deny(operation: Operation, kind: ResourceType, name: str) -> None:
            await add(Permission.DENY, operation, kind, name)

        for kind, name in (
            (ResourceType.CLUSTER, "kafka-cluster"),
            (ResourceType.TOPIC, "*"),
            (ResourceType.GROUP, "*"),
        ):
            await add(Permission.ALLOW, Operation.ALL, kind, name)
        await deny(Operation.CREATE, ResourceType.CLUSTER, "kafka-cluster")
        await deny(Operation.CREATE, ResourceType.TOPIC, "c")
        status = missing(await beat(client, joining(counting_topology())))
        assert status is not None
        assert "may not CREATE c" in status.status_detail
        assert "r" not in node.node.metadata.image.topics.by_name

        await deny(Operation.DESCRIBE, ResourceType.TOPIC, "c")
        denied = await beat(client, joining(counting_topology()))
        assert denied.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        (described,) = (
            await client.call(StreamsGroupDescribeRequest(group_ids=["g"]), StreamsGroupDescribeResponse)
        ).groups
        assert described.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert described.topology is None

        await deny(Operation.READ, ResourceType.GROUP, "g")
        denied = await beat(client, joining(counting_topology()))
        assert denied.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        update = StreamsGroupTopologyDescriptionUpdateRequest(group_id="g", member_id="m")
        refused = await client.call(update, StreamsGroupTopologyDescriptionUpdateResponse)
        assert refused.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        await deny(Operation.DESCRIBE, ResourceType.GROUP, "g")
        (described,) = (
            await client.call(StreamsGroupDescribeRequest(group_ids=["g"]), StreamsGroupDescribeResponse)
        ).groups
        assert described.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_a_description_with_hidden_topics_is_left_out(tmp_path: Path) -> None:
    async with ready_node(tmp_path, **AUTHORIZED) as (node, client):
        topology = Topology(
            subtopologies=[
                subtopology("0", "orders", writes=["g-r"]),
                subtopology("1", reads=[TopicInfo(name="g-r")]),
            ]
        )
        response = await beat(client, joining(topology))
        assert response.error_code == 0
        source = TopologyDescriptionNode(name="s", node_type=1, source_topics=["orders", "r"])
        sink = TopologyDescriptionNode(name="k", node_type=3, sink_topic="exports")
        world = TopologyDescriptionNode(name="w", node_type=1, source_topics=["countries"])
        update = StreamsGroupTopologyDescriptionUpdateRequest(
            group_id="g",
            member_id="m",
            topology_description=TopologyDescription(
                subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=[source, sink])],
                global_stores=[
                    TopologyDescriptionGlobalStore(
                        source=world, processor=TopologyDescriptionNode(name="p", node_type=2)
                    )
                ],
            ),
        )
        pushed = await client.call(update, StreamsGroupTopologyDescriptionUpdateResponse)
        assert pushed.error_code == 0

        async def statuses_without(*hidden: str) -> list[int]:
            """The status while the client may not describe one of the topics."""
            statuses = []
            for name in hidden:
                acl = Acl(
                    ResourceType.TOPIC,
                    name,
                    PatternType.LITERAL,
                    ANONYMOUS,
                    "*",
                    Operation.DESCRIBE,
                    Permission.DENY,
                )
                async with Cluster(node.bootstrap) as cluster:
                    await Acls(cluster).create([acl])
                    (group,) = (
                        await client.call(
                            StreamsGroupDescribeRequest(group_ids=["g"], include_topology_description=True),
                            StreamsGroupDescribeResponse,
                        )
                    ).groups
                    await Acls(cluster).delete([AclFilter(resource_name=name)])
                assert group.error_code == 0
                available = group.topology_description_status == DescriptionStatus.AVAILABLE
                assert (group.topology_description is not None) == available
                statuses.append(group.topology_description_status)
            return statuses

        assert await statuses_without("other", "r", "exports", "countries") == [
            DescriptionStatus.AVAILABLE,
            DescriptionStatus.AVAILABLE,
            DescriptionStatus.ERROR,
            DescriptionStatus.ERROR,
        ]


async def test_disabled_protocol_is_rejected(tmp_path: Path) -> None:
    async with ready_node(tmp_path, **{"group.coordinator.rebalance.protocols": "classic"}) as (_, client):
        response = await beat(client, joining(counting_topology()))
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        (described,) = (
            await client.call(StreamsGroupDescribeRequest(group_ids=["g"]), StreamsGroupDescribeResponse)
        ).groups
        assert described.error_code == ErrorCode.UNSUPPORTED_VERSION
