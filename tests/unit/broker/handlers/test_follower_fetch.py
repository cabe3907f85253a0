"""Fetches of another broker, played by the test."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ruslo.broker.handlers import follower_fetch
from ruslo.broker.partitions.ack_wait import AckResult
from ruslo.model.clock import SystemClock
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.fetch_response import FetchResponse
from ruslo.protocol.messages.produce_response import ProduceResponse
from tests.support.brokers.live_node import batch_of, records_in, until
from tests.support.brokers.second_broker import two_brokers
from tests.support.clients.raw_client import connected

A_MINUTE_MS = 60_000
"""Longer than a test waits for an answer."""


async def test_a_session_tells_a_follower_what_has_moved_and_nothing_twice(tmp_path: Path) -> None:
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
        leader = node.partition().leader
        assert leader is not None
        await until(lambda: len(leader.follower_fetches) == 1)
        client.send(node.produce_request({("t", 0): batch_of(b"one")}))
        assert await waiting == [("NONE", 0, [b"one"])]
        assert await told(3, 1) == [("NONE", 1, [])], "its own ack has moved the high watermark"
        acked = await client.receive(ProduceResponse)
        assert acked.responses[0].partition_responses[0].error_code == 0
        assert await told(4) == []
        newer = second.epoch + 1
        assert await told(5, epoch=newer) == []
        assert await told(6) == [("NOT_LEADER_OR_FOLLOWER", -1, [])], "that registration is over"
        assert await told(7, epoch=newer) == [("NONE", 1, [])], "told again, so that the error is over"


async def test_what_is_appended_because_of_a_fetch_comes_with_it(tmp_path: Path) -> None:
    """A coordinator writes its next record as soon as the follower's fetch has made the last one safe."""
    async with (
        two_brokers(tmp_path) as (node, second, topic_id),
        connected(node.bootstrap) as client,
        connected(node.bootstrap) as follower,
    ):
        partition = node.partition()
        client.send(node.produce_request({("t", 0): batch_of(b"one")}))
        await until(lambda: partition.log.end_offset == 1)

        def go_on(_: AckResult) -> None:
            partition.append(memoryview(bytearray(batch_of(b"two"))), SystemClock().now_ms())

        partition.empty_append().when_committed(A_MINUTE_MS, go_on)
        request = second.request(topic_id, 1)
        request.max_wait_ms, request.min_bytes = A_MINUTE_MS, 1
        (topic,) = (await follower.call(request, FetchResponse)).responses
        (data,) = topic.partitions
        assert [record.value for record in records_in(data.records)] == [b"two"]
        await client.receive(ProduceResponse)


async def test_records_of_many_partitions_come_in_several_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them waits for more, whatever the follower says it waits for; and none is left out for ever."""
    monkeypatch.setattr(follower_fetch, "MAX_PARTITIONS_WITH_RECORDS", 1)
    async with (
        two_brokers(tmp_path) as (node, second, first_topic),
        connected(node.bootstrap) as client,
        connected(node.bootstrap) as follower,
    ):
        second_topic = await second.create_topic("u")
        for name in ("t", "u"):
            request = node.produce_request({(name, 0): batch_of(name.encode())}, acks=1)
            await client.call(request, ProduceResponse)

        async def fetched(
            session_id: int, epoch: int, *offsets: int, min_bytes: int
        ) -> tuple[int, list[bytes | None]]:
            request = second.request(first_topic)
            for topic_id, offset in zip((first_topic, second_topic), offsets, strict=False):
                request.topics += second.request(topic_id, offset).topics
            request.session_id, request.session_epoch = session_id, epoch
            request.max_wait_ms, request.min_bytes = A_MINUTE_MS, min_bytes
            answer = await follower.call(request, FetchResponse)
            values = [
                record.value
                for topic in answer.responses
                for each in topic.partitions
                for record in records_in(each.records)
            ]
            return answer.session_id, values

        session_id, values = await fetched(0, 0, 0, 0, min_bytes=1 << 20)
        assert values == [b"t"]
        _, values = await fetched(session_id, 1, 1, min_bytes=1)
        assert values == [b"u"]
