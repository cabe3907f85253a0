"""The Java client of Apache Kafka 4.4, whose requests are newer than those of Apache Kafka 4.3."""

from __future__ import annotations

import asyncio
import re
import subprocess
from functools import partial

import pytest

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from ruslo.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from ruslo.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from ruslo.protocol.messages.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from tests.interop.conftest import TopicMaker
from tests.support.clients.librdkafka import Sent, produce_all
from tests.support.clients.raw_client import connected
from tests.support.groups.group_requests import find_coordinator
from tests.support.groups.streams_transcript import stateless_topology
from tests.support.tools.kafka_jars import newer_clients_jar, support_java_command

pytestmark = pytest.mark.usefixtures("needs_java")

RECORDS = 20


def test_a_transaction_and_a_deleted_group(bootstrap: str, new_topic: TopicMaker, group: str) -> None:
    source, copy = new_topic(partitions=2), new_topic()
    produce_all(bootstrap, source, [Sent(b"%d" % number, partition=number % 2) for number in range(RECORDS)])
    command = support_java_command(
        "NewestClient",
        bootstrap,
        source,
        copy,
        group,
        str(RECORDS),
        log_level="DEBUG",
        first=newer_clients_jar(),
    )
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr[-4000:]
    refused, deleted, unregistered = result.stdout.splitlines()
    assert refused.startswith("GroupNotEmptyException: ")
    assert deleted == "deleted"
    assert unregistered == "UnsupportedVersionException", "it needs a metadata.version of 4.4"
    sent = set(re.findall(r"apiKey=([A-Z_]+), apiVersion=(\d+)", result.stderr))
    assert {("API_VERSIONS", "5"), ("TXN_OFFSET_COMMIT", "6"), ("DELETE_GROUPS", "3")} <= sent


async def test_the_topology_description_of_a_streams_group(
    bootstrap: str, new_topic: TopicMaker, group: str
) -> None:
    topic = new_topic(partitions=2)
    command = support_java_command("NewestStreamsAdmin", bootstrap, group, first=newer_clients_jar())

    async def described() -> list[str]:
        run = partial(subprocess.run, command, capture_output=True, text=True, timeout=120)
        result = await asyncio.to_thread(run)
        assert result.returncode == 0, result.stderr[-4000:]
        return str(result.stdout).splitlines()

    async with connected(bootstrap) as client:
        assert (await find_coordinator(client, group)).error_code == ErrorCode.NONE
        joining = StreamsGroupHeartbeatRequest(
            group_id=group,
            member_id="m",
            rebalance_timeout_ms=60_000,
            topology=stateless_topology(topic),
            process_id="p",
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
        )
        joined = await client.call(joining, StreamsGroupHeartbeatResponse)
        assert joined.error_code == ErrorCode.NONE
        assert joined.topology_description_required
        assert await described() == ["Optional[sticky]", "NOT_STORED", "Optional.empty"]
        node = TopologyDescriptionNode(name="SOURCE-1", node_type=1, source_topics=[topic])
        pushed = StreamsGroupTopologyDescriptionUpdateRequest(
            group_id=group,
            member_id="m",
            topology_description=TopologyDescription(
                subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=[node])]
            ),
        )
        stored = await client.call(pushed, StreamsGroupTopologyDescriptionUpdateResponse)
        assert stored.error_code == ErrorCode.NONE
    _, status, description = await described()
    assert status == "AVAILABLE"
    assert "SOURCE-1" in description
