"""ShareFetch and ShareAcknowledge on a node, over the wire."""

from __future__ import annotations

from pathlib import Path

from ruslo.model.errors import ErrorCode
from tests.support.brokers.live_node import LiveNode, batch_of, live_node
from tests.support.clients.raw_client import connected
from tests.support.share.share_client import ACCEPT, RELEASE, SMALL, Acquired, member_on
from tests.support.share.state_requests import initialize_request


async def shared_topic(
    node: LiveNode, partitions: int = 1, *, start_offset: int = 0, group: str = "g"
) -> bytes:
    topic = await node.create("t", partitions)
    request = initialize_request(1, start_offset, topic=topic, group=group)
    for index in range(1, partitions):
        more = initialize_request(1, start_offset, topic=topic, partition=index)
        request.topics[0].partitions += more.topics[0].partitions
    results = await node.node.broker.share_persister.request(request)
    assert {each.error_code for each in results.values()} == {0}
    return topic


async def test_records_are_acquired_acknowledged_and_not_delivered_again(tmp_path: Path) -> None:
    async with live_node(tmp_path, SMALL) as node, connected(node.bootstrap) as writer:
        topic = await shared_topic(node)
        await node.produce(writer, batch_of(b"a", b"b", b"c"))
        await node.produce(writer, batch_of(b"d"))
        async with member_on(node.bootstrap, topic) as member:
            found = await member.fetch([0])
            assert member.error is ErrorCode.NONE
            assert found.acquired() == [Acquired(0, 3, 1)]
            assert found.values() == [b"a", b"b", b"c", b"d"]
            assert found.response.acquisition_lock_timeout_ms == 30_000
            result = await member.acknowledge({0: [(0, 1, [ACCEPT]), (2, 2, [RELEASE]), (3, 3, [ACCEPT])]})
            assert result == {0: ErrorCode.NONE}
            again = await member.fetch()
            assert again.acquired() == [Acquired(2, 2, 2)]
            assert again.values() == [b"c"]
            assert await member.close({0: [(2, 2, [ACCEPT])]}) == {0: ErrorCode.NONE}
