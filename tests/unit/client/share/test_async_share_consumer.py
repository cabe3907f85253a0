from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ruslo.client.share.acknowledgements import Acknowledgements, SharePartitionId
from ruslo.client.share.acquired import Acquired
from ruslo.client.share.async_share_consumer import AsyncShareConsumer
from ruslo.client.share.broker_session import Outcomes
from ruslo.client.share.in_flight import InFlight
from ruslo.client.share.share_client import ShareClient
from ruslo.machines.share_partition.values import AcquiredRange
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import random_uuid
from ruslo.records.builder import build_batch
from ruslo.records.record import Record

PARTITION = SharePartitionId("orders", random_uuid(), 0)
CONFIG = {"bootstrap.servers": "127.0.0.1:1", "group.id": "workers"}
Consumer = AsyncShareConsumer[Any, Any]


class SlowLeave:
    """Membership calls in order; a leave waits until the test lets it finish."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.leaves = asyncio.Event()
        self.may_end = asyncio.Event()

    def start(self) -> None:
        self.events.append("joins")

    async def close(self, acknowledgements: Mapping[int, Acknowledgements]) -> dict[int, Outcomes]:
        self.events.append("leaves")
        self.leaves.set()
        await self.may_end.wait()
        self.events.append("left")
        return {}

    async def leaders(self) -> dict[int, list[SharePartitionId]]:
        return {}


@pytest.fixture
def membership(monkeypatch: pytest.MonkeyPatch) -> SlowLeave:
    found = SlowLeave()
    monkeypatch.setattr(ShareClient, "start", lambda _client: found.start())
    monkeypatch.setattr(ShareClient, "close", lambda _client, decided: found.close(decided))
    monkeypatch.setattr(ShareClient, "leaders", lambda _client: found.leaders())
    return found


@pytest.mark.parametrize(
    "rejoin",
    [lambda consumer: consumer.poll(0), lambda consumer: consumer.subscribe(["orders"])],
    ids=["poll", "subscribe"],
)
async def test_a_member_that_leaves_joins_again_only_after_it_has_left(
    membership: SlowLeave, rejoin: Callable[[Consumer], Awaitable[object]]
) -> None:
    consumer: Consumer = AsyncShareConsumer(CONFIG)
    await consumer.subscribe(["orders"])
    ending = asyncio.create_task(consumer._end_membership())
    await membership.leaves.wait()
    again = asyncio.ensure_future(rejoin(consumer))
    await asyncio.sleep(0)
    membership.may_end.set()
    await asyncio.gather(ending, again)
    assert membership.events == ["joins", "leaves", "left", "joins"]
    await consumer.close()


@pytest.mark.parametrize("failing", [1, 2])
async def test_an_error_of_one_of_two_leaders_is_the_result_of_the_partition(
    monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    async def acknowledge(_client: ShareClient, _decided: object) -> dict[int, Outcomes]:
        return {node: {PARTITION: error if node == failing else None} for node in (1, 2)}

    monkeypatch.setattr(ShareClient, "acknowledge", acknowledge)
    consumer: Consumer = AsyncShareConsumer(CONFIG)
    assert await consumer.commit() == {PARTITION.topic_partition: error}
    await consumer.close()


async def test_buffered_records_are_not_delivered_while_the_end_of_a_membership_drops_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free: dict[str, bool] = {}

    def note(what: str) -> None:
        with ThreadPoolExecutor(1) as other_thread:
            free[what] = other_thread.submit(lock.acquire, blocking=False).result()

    def deserialize(value: bytes | None) -> bytes | None:
        note("delivery")
        return value

    monkeypatch.setattr(InFlight, "clear", lambda _in_flight: note("end"))
    consumer: Consumer = AsyncShareConsumer(CONFIG, value_deserializer=deserialize)
    lock = consumer._in_flight.lock
    batch = build_batch([Record(at, 1_000, None, b"v") for at in range(2)], base_offset=0)
    consumer._add(Acquired(PARTITION, 1, [AcquiredRange(0, 1, 1)], batch, 30_000, 2**62))
    assert consumer.next_buffered() is not None
    await consumer._end_membership()
    assert free == {"delivery": False, "end": False}
    assert consumer.next_buffered() is None
    await consumer.close()
