"""Assignors through a whole node: custom assignors, their failures, lags, and DescribeConfigs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType

import pytest

from ruslo.machines.assignors.spec import Assignment, GroupSpec
from ruslo.model.errors import ConfigError
from ruslo.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ruslo.protocol.messages.consumer_group_describe_response import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from ruslo.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ruslo.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from ruslo.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ruslo.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from ruslo.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ruslo.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from tests.support.brokers.live_node import LiveNode, batch_of, live_node, run, until
from tests.support.clients.raw_client import RawClient, connected
from tests.support.groups.group_requests import commit, find_coordinator

GROUP_RESOURCE = 32
PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "group.consumer.min.heartbeat.interval.ms": "10",
    "group.consumer.heartbeat.interval.ms": "10",
    "group.consumer.assignment.interval.ms": "0",
}


class Script:
    """A custom assignor that the test scripts, and that records its arguments."""

    def __init__(self) -> None:
        self.seen: list[GroupSpec] = []
        self.failure: Exception | None = None

    def assign(self, group: GroupSpec) -> Assignment:
        self.seen.append(group)
        if self.failure is not None:
            raise self.failure
        first = min(group.members)
        return {first: {each.topic_id: range(each.partition_count) for each in group.topics.values()}}


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Install the script as the assignor ``scripted``."""
    script = Script()
    module = ModuleType("scripted_assignor")
    module.script = script  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "scripted_assignor", module)
    info = tmp_path / "packages" / "scripted_assignor-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: scripted-assignor\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ruslo.assignors]\nscripted = scripted_assignor:script\n")
    monkeypatch.syspath_prepend(str(info.parent))
    return script


@asynccontextmanager
async def ready_node(directory: Path, assignors: str) -> AsyncIterator[tuple[LiveNode, RawClient]]:
    properties = {**PROPERTIES, "group.consumer.assignors": assignors}
    async with live_node(directory / "data", properties) as node, connected(node.bootstrap) as client:
        await node.create("t", partitions=4)
        assert (await find_coordinator(client, "g")).error_code == 0
        yield node, client


class Member:
    """A consumer group member that owns every partition assigned to it."""

    def __init__(self, client: RawClient, name: str) -> None:
        self._client = client
        self._name = name
        self._epoch = 0
        self.partitions: list[int] = []

    async def beat(self) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=self._name, member_epoch=self._epoch)
        if not self._epoch:
            request.rebalance_timeout_ms, request.subscribed_topic_names = 10_000, ["t"]
            request.topic_partitions = []
        response = await self._client.call(request, ConsumerGroupHeartbeatResponse)
        assert response.error_code == 0, response.error_message
        self._epoch = response.member_epoch
        if response.assignment is not None:
            groups_seen = response.assignment.topic_partitions
            self.partitions = sorted(index for topic in groups_seen for index in topic.partitions)
        return response

    async def beat_until(self, count: int) -> None:
        while len(self.partitions) != count:
            await self.beat()
            await asyncio.sleep(0.001)


async def group_configs(client: RawClient) -> dict[str, DescribeConfigsResourceResult]:
    resource = DescribeConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name="g", configuration_keys=None
    )
    response = await client.call(DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse)
    (result,) = response.results
    assert result.error_code == 0
    return {entry.name: entry for entry in result.configs}


async def described(client: RawClient) -> DescribedGroup:
    request = ConsumerGroupDescribeRequest(group_ids=["g"])
    (group,) = (await client.call(request, ConsumerGroupDescribeResponse)).groups
    return group


async def test_custom_assignor_computes_the_target(tmp_path: Path, script: Script) -> None:
    async with ready_node(tmp_path, "scripted,uniform") as (node, client):
        assert (await node.produce(client, batch_of(b"1", b"2", b"3"), index=2)).error_code == 0
        member = Member(client, "m")
        await member.beat_until(4)
        assert (await described(client)).assignor_name == "scripted"
        (topic,) = script.seen[-1].topics.values()
        assert (topic.name, topic.lags) == ("t", (0, 0, 3, 0))
        assert topic.sizes[2] > topic.sizes[0] == 0
        assert "ruslo.assignor.error" not in await group_configs(client)


def test_failing_assignor_keeps_the_target_and_reports_its_error(
    tmp_path: Path, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with ready_node(tmp_path, "scripted") as (node, client):
            first, second = Member(client, "a"), Member(client, "b")
            await first.beat_until(4)
            target_epoch = (await described(client)).assignment_epoch
            script.failure = RuntimeError("out of ideas")
            await second.beat()
            await until(lambda: node.node.broker.groups.assignor_error("g") is not None)
            error = (await group_configs(client))["ruslo.assignor.error"]
            assert error.value == "scripted raised RuntimeError: out of ideas"
            assert error.read_only
            group = await described(client)
            assert group.assignment_epoch == target_epoch
            assert group.group_epoch == target_epoch + 1
            await first.beat()
            assert first.partitions == [0, 1, 2, 3]
            assert second.partitions == []

    run(scenario())
    assert "'scripted' failed for group 'g'" in caplog.text


async def test_lags_are_computed_from_logs_and_commits(tmp_path: Path) -> None:
    async with ready_node(tmp_path, "lag-aware") as (node, client):
        for index, count in ((0, 90), (1, 10), (2, 10), (3, 10)):
            values = [b"x"] * count
            assert (await node.produce(client, batch_of(*values), index=index)).error_code == 0
        assert await commit(client, "g", {0: 0, 1: 5})
        first, second = Member(client, "a"), Member(client, "b")
        await first.beat()
        await second.beat()
        while len(first.partitions) + len(second.partitions) != 4 or not second.partitions:
            await first.beat()
            await second.beat()
            await asyncio.sleep(0.001)
        # The only partition with a large lag weighs as much as all the others.
        assert [0] in (first.partitions, second.partitions)


async def test_group_configs_take_effect(tmp_path: Path) -> None:
    async with ready_node(tmp_path, "uniform") as (_, client):
        member = Member(client, "m")
        assert (await member.beat()).heartbeat_interval_ms == 10
        change = AlterConfigsResource(
            resource_type=GROUP_RESOURCE,
            resource_name="g",
            configs=[AlterableConfig(name="consumer.heartbeat.interval.ms", value="77")],
        )
        response = await client.call(
            IncrementalAlterConfigsRequest(resources=[change]), IncrementalAlterConfigsResponse
        )
        assert response.responses[0].error_code == 0, response.responses[0].error_message
        assert (await member.beat()).heartbeat_interval_ms == 77


async def test_node_does_not_start_with_a_missing_assignor(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"group\.consumer\.assignors names 'unknown'"):
        async with ready_node(tmp_path, "uniform,unknown"):
            pass
