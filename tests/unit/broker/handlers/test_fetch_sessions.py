"""Fetch sessions over the wire (KIP-227)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ruslo.protocol.messages.fetch_response import FetchResponse
from tests.support.brokers.live_node import LiveNode, batch_of, live_node, records_in, until
from tests.support.clients.raw_client import RawClient, connected

Values = dict[tuple[str, int], list[bytes | None]]


class SessionClient:
    """A consumer that uses one session and reads which partitions each response includes."""

    def __init__(self, node: LiveNode, client: RawClient, version: int) -> None:
        self.node = node
        self.client = client
        self.version = version
        self.session_id = 0
        self.epoch = 0
        self.error = "NONE"

    async def fetch(
        self,
        listed: dict[tuple[str, int], int] | None = None,
        forgotten: Sequence[tuple[str, int]] = (),
        max_wait_ms: int = 0,
    ) -> Values:
        """List partitions with their fetch offsets; return the values of each partition in the response."""
        names = {self.node.topic_id(name): name for name in ("t", "u")}
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[
                FetchTopic(
                    topic=topic,
                    topic_id=self.node.topic_id(topic),
                    partitions=[FetchPartition(partition=index, fetch_offset=at, partition_max_bytes=1000)],
                )
                for (topic, index), at in (listed or {}).items()
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic=topic, topic_id=self.node.topic_id(topic), partitions=[index])
                for topic, index in forgotten
            ],
        )
        response = await self.client.call(request, FetchResponse, self.version)
        self.error = ErrorCode(response.error_code).name
        if self.error == "NONE":
            self.session_id = response.session_id
            self.epoch = self.epoch + 1 if response.session_id else 0
        return {
            (topic.topic or names[topic.topic_id], each.partition_index): [
                record.value for record in records_in(each.records)
            ]
            for topic in response.responses
            for each in topic.partitions
        }


@pytest.mark.parametrize("version", [7, 11, 12, 13, 18])
async def test_the_lifecycle_of_a_session(tmp_path: Path, version: int) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create("t", 2)
        await node.create("u", 1)
        session = SessionClient(node, client, version)
        every = {("t", 0): 0, ("t", 1): 0, ("u", 0): 0}
        assert await session.fetch(every) == {tp: [] for tp in every}
        assert session.session_id > 0

        assert await session.fetch() == {}, "nothing changed, so no partition is included"
        await node.produce(client, batch_of(b"a"), index=1)
        assert await session.fetch() == {("t", 1): [b"a"]}
        assert await session.fetch({("t", 1): 1}) == {}

        await node.produce(client, batch_of(b"b"), topic="u")
        await node.produce(client, batch_of(b"c"))
        result = await session.fetch({("t", 0): 0}, forgotten=[("u", 0)])
        assert result == {("t", 0): [b"c"]}
        assert await session.fetch({("t", 0): 1}) == {}
        assert await session.fetch({("u", 0): 0}) == {("u", 0): [b"b"]}, "added again"

        # Forgetting all partitions closes the session.
        assert await session.fetch(forgotten=list(every)) == {}
        assert session.session_id == 0


async def test_a_waiting_incremental_fetch_completes(tmp_path: Path) -> None:
    async with (
        live_node(tmp_path) as node,
        connected(node.bootstrap) as client,
        connected(node.bootstrap) as writer,
    ):
        await node.create("t", 2)
        await node.create("u", 1)
        session = SessionClient(node, client, 18)
        await session.fetch({("t", 0): 0, ("t", 1): 0})
        waiting = asyncio.create_task(session.fetch(max_wait_ms=2**31 - 1))
        await until(lambda: bool(node.partition("t", 1).delayed_fetches))
        await node.produce(writer, batch_of(b"a"), index=1)
        assert await waiting == {("t", 1): [b"a"]}


async def test_errors_of_sessions(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create("t", 2)
        await node.create("u", 1)
        await node.produce(client, batch_of(b"a"))
        session = SessionClient(node, client, 12)
        await session.fetch({("t", 0): 0})
        session_id = session.session_id

        session.session_id = session_id % (2**31 - 1) + 1
        assert await session.fetch(max_wait_ms=2**31 - 1) == {}
        assert session.error == "FETCH_SESSION_ID_NOT_FOUND"
        session.session_id = session_id

        session.epoch += 5
        assert await session.fetch() == {}
        assert session.error == "INVALID_FETCH_SESSION_EPOCH"
        session.epoch -= 5

        session.version = 13
        assert await session.fetch() == {}
        assert session.error == "FETCH_SESSION_TOPIC_ID_ERROR"
        session.version = 12

        # None of these closed the session.
        assert await session.fetch({("t", 0): 0}) == {("t", 0): [b"a"]}
        assert session.error == "NONE"

        # A new full fetch closes the old session and opens another.
        session.epoch = 0
        assert await session.fetch({("t", 0): 0}) == {("t", 0): [b"a"]}
        assert session.session_id not in (0, session_id)
        session.epoch, session.session_id = 3, session_id
        await session.fetch()
        assert session.error == "FETCH_SESSION_ID_NOT_FOUND"


async def test_a_final_fetch_closes_its_session_and_returns_records(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create("t")
        await node.create("u")
        await node.produce(client, batch_of(b"a"))
        session = SessionClient(node, client, 12)
        await session.fetch({("t", 0): 0})
        old = session.session_id
        session.epoch = -1
        assert await session.fetch({("t", 0): 0}) == {("t", 0): [b"a"]}
        assert session.session_id == 0
        session.session_id, session.epoch = old, 1
        await session.fetch()
        assert session.error == "FETCH_SESSION_ID_NOT_FOUND"


async def test_a_client_gets_records_without_a_session_when_the_cache_is_full(tmp_path: Path) -> None:
    properties = {"max.incremental.fetch.session.cache.slots": "1"}
    async with live_node(tmp_path, properties) as node, connected(node.bootstrap) as client:
        await node.create("t")
        await node.create("u")
        await node.produce(client, batch_of(b"a"))
        first, second = SessionClient(node, client, 12), SessionClient(node, client, 12)
        await first.fetch({("t", 0): 0})
        assert await second.fetch({("t", 0): 0}) == {("t", 0): [b"a"]}
        assert (first.session_id > 0, second.session_id) == (True, 0)


async def test_a_deleted_topic_is_an_error_in_the_session(tmp_path: Path) -> None:
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create("t")
        await node.create("u")
        tp = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        request = node.fetch_request([("t", tp), ("u", tp)], session_epoch=0)
        opened = await client.call(request, FetchResponse, 13)
        deleted_id = node.topic_id("t")
        await node.delete("t")
        for epoch in (1, 2):
            request = FetchRequest(session_id=opened.session_id, session_epoch=epoch, topics=[])
            (result,) = (await client.call(request, FetchResponse, 13)).responses
            assert result.topic_id == deleted_id
            assert ErrorCode(result.partitions[0].error_code) is ErrorCode.UNKNOWN_TOPIC_ID
