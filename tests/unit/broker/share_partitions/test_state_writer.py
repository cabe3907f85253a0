"""Writes of share states: one after the other for a share-partition, and together for a group and node."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ruslo.broker.share_partitions import state_writer
from ruslo.broker.share_partitions.led_partition import LedSharePartition, Written
from ruslo.broker.share_partitions.state_writer import StateWriter
from ruslo.machines.share_coordinator.records import ShareKey
from ruslo.machines.share_coordinator.responses import results_by_key, split
from ruslo.machines.share_partition.values import StateBatch, StateWrite
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.write_share_group_state_request import WriteShareGroupStateRequest
from ruslo.protocol.messages.write_share_group_state_response import (
    PartitionResult,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

TOPIC = b"topic-id-16bytes"


class Persister:
    """Share coordinators whose responses the test sends."""

    def __init__(self) -> None:
        self.requests: list[tuple[WriteShareGroupStateRequest, asyncio.Future[Mapping[ShareKey, Any]]]] = []
        self.nodes: dict[ShareKey, int] = {}

    def node_of(self, key: ShareKey) -> int:
        return self.nodes.get(key, 1)

    def request(self, request: WriteShareGroupStateRequest) -> asyncio.Future[Mapping[ShareKey, Any]]:
        response: asyncio.Future[Mapping[ShareKey, Any]] = asyncio.get_running_loop().create_future()
        self.requests.append((request, response))
        return response

    async def respond(self, code: ErrorCode = ErrorCode.NONE) -> None:
        request, response = self.requests.pop(0)
        results = [
            WriteStateResult(
                topic_id=topic.topic_id,
                partitions=[
                    PartitionResult(partition=each.partition, error_code=code) for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        response.set_result(results_by_key(request.group_id, WriteShareGroupStateResponse(results=results)))
        await turn()


class Machine:
    def __init__(self) -> None:
        self.written: list[tuple[int, bool]] = []

    def on_written(self, write_id: int, persisted: bool, now_ms: int) -> None:
        self.written.append((write_id, persisted))


class Bench:
    def __init__(self) -> None:
        persister: Any = Persister()
        self.persister = persister
        self.notes: list[tuple[int, ErrorCode | None]] = []
        self.writer = StateWriter(persister, self._on_written, asyncio.get_running_loop().call_soon, int)

    def _on_written(self, led: LedSharePartition, error: KafkaError | None) -> None:
        self.notes.append((led.key.partition, None if error is None else error.code))

    def led(self, index: int, group: str = "g") -> Any:
        nothing: Any = None
        led = LedSharePartition(ShareKey(group, TOPIC, index), nothing, nothing, 5, 0, 0, state_epoch=3)
        machine: Any = Machine()
        led.machine = machine
        return led

    def submit(self, led: LedSharePartition, write_id: int, *batches: StateBatch, start: int = 0) -> Written:
        written: Written = asyncio.get_running_loop().create_future()
        self.writer.submit(led, StateWrite(write_id, start, write_id, batches), written)
        return written

    def sent(self) -> list[list[tuple[int, int, list[int]]]]:
        """Partition, start offset and first offsets of each share-partition, by request."""
        return [
            [
                (each.partition, each.start_offset, [batch.first_offset for batch in each.state_batches])
                for topic in request.topics
                for each in topic.partitions
            ]
            for request, _ in self.persister.requests
        ]


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def batch(first: int) -> StateBatch:
    return StateBatch(first, first, 2, 1)


async def test_writes_that_arrive_during_a_write_are_sent_together_after_it() -> None:
    bench = Bench()
    led = bench.led(0)
    first = bench.submit(led, 1, batch(0))
    await turn()
    later = [bench.submit(led, 2, batch(1), start=1), bench.submit(led, 3, batch(2), start=2)]
    await turn()
    assert bench.sent() == [[(0, 0, [0])]]
    ((key, request),) = split(bench.persister.requests[0][0])
    assert key == led.key
    data: Any = request.topics[0].partitions[0]
    assert (data.state_epoch, data.leader_epoch, data.delivery_complete_count) == (3, 5, 1)
    await bench.persister.respond()
    assert first.result() is None
    assert not later[0].done()
    assert bench.sent() == [[(0, 2, [1, 2])]]
    await bench.persister.respond(ErrorCode.NOT_COORDINATOR)
    assert [each.result().code for each in later] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2  # type: ignore[union-attr]
    assert led.machine.written == [(1, True), (2, False), (3, False)]
    assert bench.notes == [(0, None), (0, ErrorCode.COORDINATOR_NOT_AVAILABLE)]


async def test_a_request_for_each_group_and_node() -> None:
    bench = Bench()
    partitions = [bench.led(index) for index in range(3)]
    other = bench.led(0, group="h")
    bench.persister.nodes[partitions[2].key] = 2
    for number, led in enumerate([*partitions, other]):
        bench.submit(led, number + 1, batch(number))
    await turn()
    assert bench.sent() == [[(0, 0, [0]), (1, 0, [1])], [(2, 0, [2])], [(0, 0, [3])]]


async def test_requests_are_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(state_writer, "MAX_STATE_BATCHES", 3)
    bench = Bench()
    one, two = bench.led(0), bench.led(1)
    bench.submit(one, 1, batch(0), batch(2))
    bench.submit(one, 2, batch(4), batch(6))
    bench.submit(two, 3, batch(0), batch(2))
    await turn()
    assert bench.sent() == [[(0, 0, [0, 2])], [(1, 0, [0, 2])]]
    await bench.persister.respond()
    assert bench.sent()[1:] == [[(0, 0, [4, 6])]]


async def test_a_failed_share_partition_writes_nothing_more() -> None:
    bench = Bench()
    led = bench.led(0)
    first = bench.submit(led, 1, batch(0))
    await turn()
    second = bench.submit(led, 2, batch(1))
    led.fail(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The leader changed."))
    error = second.result()
    assert error is not None
    assert error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    await bench.persister.respond()
    assert first.result() is None, "the share coordinator has got it"
    assert not bench.persister.requests


async def test_a_bug_of_the_persister_fails_the_write() -> None:
    bench = Bench()
    led = bench.led(0)
    written = bench.submit(led, 1, batch(0))
    await turn()
    bench.persister.requests[0][1].set_exception(ValueError("a bug"))
    await turn()
    error = written.result()
    assert error is not None
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    await bench.writer.stop()
