"""Internal topics of streams groups: how failures to create them are remembered and logged."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from ruslo.broker.coordinators.groups.internal_topics import SHOWN_TOPICS, InternalTopicCreator
from ruslo.machines.groups.streams.configured_topology import InternalTopic
from ruslo.model.clock import SystemClock
from ruslo.model.errors import ErrorCode
from ruslo.protocol.message import Message
from ruslo.protocol.messages.create_topics_request import CreateTopicsRequest
from ruslo.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse

RETRY_MS = 10_000
MANY = [InternalTopic(f"t{at}", 1, 0, {}) for at in range(2_500)]


class ManualClock(SystemClock):
    def __init__(self) -> None:
        self.now = 0

    def monotonic_ms(self) -> int:
        return self.now


class Controller:
    """Answers every topic with one error code."""

    def __init__(self, error_code: ErrorCode) -> None:
        self.error_code = error_code
        self.requests: list[CreateTopicsRequest] = []

    async def forward(self, request: Message, context: object) -> Message:
        assert isinstance(request, CreateTopicsRequest)
        self.requests.append(request)
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(name=topic.name, error_code=self.error_code) for topic in request.topics
            ]
        )


class Bench:
    def __init__(self, error_code: ErrorCode) -> None:
        self.controller = Controller(error_code)
        gateway: Any = self.controller
        self.clock = ManualClock()
        self.creator = InternalTopicCreator(gateway, self.clock)

    async def create(self, group_id: str = "g") -> None:
        context: Any = Context()
        self.creator.create(group_id, MANY, context, retry_ms=RETRY_MS)
        for _ in range(3):
            await asyncio.sleep(0)


class Context:
    def _replace(self, **_: object) -> Context:
        return self


async def test_a_group_with_many_failures_waits_and_logs_one_line(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(ErrorCode.INVALID_REPLICATION_FACTOR)
    with caplog.at_level(logging.WARNING):
        await bench.create()
        await bench.create()
    assert len(bench.controller.requests) == 1
    (record,) = caplog.records
    assert record.getMessage() == (
        "Could not create 2500 of 2500 internal topics of streams group g, such as t0: "
        "INVALID_REPLICATION_FACTOR"
    )
    failure = bench.creator.failure("g")
    assert failure is not None
    assert (failure.topic_count, len(failure.examples)) == (len(MANY), SHOWN_TOPICS)
    await bench.create("h")
    assert len(bench.controller.requests) == 2
    bench.clock.now += RETRY_MS
    assert bench.creator.failure("g") is None
    bench.controller.error_code = ErrorCode.NONE
    await bench.create()
    assert len(bench.controller.requests) == 3
    assert bench.creator.failure("g") is None
