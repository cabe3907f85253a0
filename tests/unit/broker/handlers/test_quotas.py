"""Client quotas over the wire: what counts, and what clients get while they must wait."""

from __future__ import annotations

from pathlib import Path

from ruslo.client.admin.admin import Admin
from ruslo.protocol.messages.fetch_request import FetchPartition
from ruslo.protocol.messages.fetch_response import FetchResponse
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ruslo.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ruslo.protocol.messages.join_group_response import JoinGroupResponse
from tests.support.brokers.live_node import LiveNode, batch_of, live_node
from tests.support.clients.raw_client import RawClient, connected


async def limit(node: LiveNode, **values: float) -> None:
    async with Admin(node.bootstrap) as admin:
        await admin.quotas.alter({"user": "ANONYMOUS"}, values)


async def fetch(node: LiveNode, client: RawClient, max_wait_ms: int = 0) -> tuple[int, int]:
    """Return the throttle time and the bytes of the records from the beginning."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = node.fetch_request([("t", partition)], max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20)
    response = await client.call(request, FetchResponse, 12)
    found = [len(data.records or b"") for topic in response.responses for data in topic.partitions]
    return response.throttle_time_ms, sum(found)


async def test_a_batch_larger_than_the_quota_is_delivered_and_then_owed(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        batch = batch_of(bytes(50_000))
        assert (await node.produce(client, batch)).error_code == 0
        await limit(node, consumer_byte_rate=1.0)
        assert await fetch(node, client) == (0, len(batch))
        throttle_ms, size = await fetch(node, client)
        assert (throttle_ms > 10_000_000, size) == (True, 0)


async def test_waits_of_requests_are_not_request_time(tmp_path: Path) -> None:
    """A long poll, and a member that waits for its group, keep the event loop busy for microseconds only."""
    rebalance = {"group.initial.rebalance.delay.ms": "1000", "offsets.topic.num.partitions": "1"}
    async with live_node(tmp_path, rebalance) as node, connected(node.bootstrap) as client:
        await node.create()
        member_id = ""
        while not member_id:
            # The first request creates the topic of the coordinator.
            await client.call(FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse)
            member_id = (await join(client, "")).member_id
        # Clients may use the time of ten windows at once: half a second.
        await limit(node, request_percentage=5.0)
        assert await fetch(node, client, max_wait_ms=1000) == (0, 0)
        joined = await join(client, member_id)
        assert (joined.error_code, joined.throttle_time_ms) == (0, 0)


async def join(client: RawClient, member_id: str) -> JoinGroupResponse:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return await client.call(request, JoinGroupResponse)
