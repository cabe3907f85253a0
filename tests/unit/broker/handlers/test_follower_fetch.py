"""Fetches of a follower that the test plays."""

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
"""This wait exceeds the time that a test waits for a response."""


async def test_a_session_reports_each_change_to_a_follower_once(tmp_path: Path) -> None:
    async with (
        two_brokers(tmp_path) as (node, second, topic_id),
        connected(node.bootstrap) as client,
        connected(node.bootstrap) as follower,
    ):
        session = 0

        async def fetched_partitions(
            session_epoch: int, *offsets: int, max_wait_ms: int = 0, epoch: int | None = None
        ) -> list[tuple[str, int, list[bytes | None]]]:
            """Return the error, high watermark and values of each partition in the response."""
            nonlocal session
            request = second.request(topic_id, *offsets, epoch=epoch)
            request.session_id, request.session_epoch = session, session_epoch
            request.max_wait_ms, request.min_bytes = max_wait_ms, 1
            response = await follower.call(request, FetchResponse)
            assert response.error_code == 0
            session = response.session_id
            return [
                (
                    ErrorCode(each.error_code).name,
                    each.high_watermark,
                    [record.value for record in records_in(each.records)],
                )
                for topic in response.responses
                for each in topic.partitions
            ]

        assert await fetched_partitions(0, 0) == [("NONE", 0, [])], "a full request includes every partition"
        assert await fetched_partitions(1) == []
        waiting = asyncio.create_task(fetched_partitions(2, max_wait_ms=20_000))
        leader = node.partition().leader
        assert leader is not None
        await until(lambda: len(leader.follower_fetches) == 1)
        client.send(node.produce_request({("t", 0): batch_of(b"one")}))
        assert await waiting == [("NONE", 0, [b"one"])]
        assert await fetched_partitions(3, 1) == [("NONE", 1, [])], (
            "the fetch itself advanced the high watermark"
        )
        acked = await client.receive(ProduceResponse)
        assert acked.responses[0].partition_responses[0].error_code == 0
        assert await fetched_partitions(4) == []
        newer = second.epoch + 1
        assert await fetched_partitions(5, epoch=newer) == []
        assert await fetched_partitions(6) == [("NOT_LEADER_OR_FOLLOWER", -1, [])], (
            "the broker epoch is stale"
        )
        assert await fetched_partitions(7, epoch=newer) == [("NONE", 1, [])], (
            "included again, because the error is over"
        )


async def test_records_appended_by_the_commit_of_a_fetch_are_in_its_response(tmp_path: Path) -> None:
    """A coordinator appends its next record as soon as the follower's fetch commits the last one."""
    async with (
        two_brokers(tmp_path) as (node, second, topic_id),
        connected(node.bootstrap) as client,
        connected(node.bootstrap) as follower,
    ):
        partition = node.partition()
        client.send(node.produce_request({("t", 0): batch_of(b"one")}))
        await until(lambda: partition.log.end_offset == 1)

        def append_next(_: AckResult) -> None:
            partition.append(memoryview(bytearray(batch_of(b"two"))), SystemClock().now_ms())

        partition.empty_append().when_committed(A_MINUTE_MS, append_next)
        request = second.request(topic_id, 1)
        request.max_wait_ms, request.min_bytes = A_MINUTE_MS, 1
        (topic,) = (await follower.call(request, FetchResponse)).responses
        (data,) = topic.partitions
        assert [record.value for record in records_in(data.records)] == [b"two"]
        await client.receive(ProduceResponse)


async def test_records_of_many_partitions_take_several_responses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Responses do not wait for min_bytes, and every partition is included eventually."""
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
            response = await follower.call(request, FetchResponse)
            values = [
                record.value
                for topic in response.responses
                for each in topic.partitions
                for record in records_in(each.records)
            ]
            return response.session_id, values

        session_id, values = await fetched(0, 0, 0, 0, min_bytes=1 << 20)
        assert values == [b"t"]
        _, values = await fetched(session_id, 1, 1, min_bytes=1)
        assert values == [b"u"]
