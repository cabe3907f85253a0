"""A random script of requests of two members of a share group, and a transcript of the responses.

The requests depend on the responses only as far as these are the same for every correct broker, so the same
seed gives the same requests on two brokers.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ruslo.protocol.messages.create_topics_response import CreateTopicsResponse
from ruslo.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ruslo.protocol.messages.produce_response import ProduceResponse
from tests.support.brokers.live_node import batch_of
from tests.support.clients.raw_client import RawClient, connected
from tests.support.share.share_client import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acquired,
    Batches,
    Fetched,
    ShareMember,
    initialize,
)

MEMBERS = ("AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBB")
PRODUCE_BY_NAME = 12


class ShareScript:
    def __init__(self, bootstrap: str, seed: int) -> None:
        self._bootstrap = bootstrap
        self._seed = seed
        # Which of several partitions is served first differs; without a limit of records it does not matter.
        self._indexes = range(1 + seed % 2)
        self._max_records = [500] if len(self._indexes) > 1 else [1, 3, 10, 100]
        self._rng = random.Random(seed)
        # With both modes in one group, Kafka rounds a few more fetches up to whole batches.
        self._mode = seed // 2 % 2
        self._held: dict[str, dict[int, dict[int, None]]] = {}
        """By member and partition: the offsets that the member has acquired."""
        self._end = dict.fromkeys(self._indexes, 0)

    async def run(self, steps: int) -> AsyncIterator[str]:
        """One line for each response."""
        group = f"script-{self._seed}"
        name = f"{group}-topic"
        async with connected(self._bootstrap) as writer:
            topic = await create_topic(writer, name, len(self._indexes))
            await initialize(writer, topic, partitions=len(self._indexes), group=group)
            async with (
                connected(self._bootstrap) as one,
                connected(self._bootstrap) as two,
                connected(self._bootstrap) as three,
            ):
                # The share-partitions load one after the other: this member lets them load without records.
                await ShareMember(three, topic, group, "loader").fetch(self._indexes, max_wait_ms=1_500)
                members = [
                    ShareMember(client, topic, group, member)
                    for client, member in zip((one, two), MEMBERS, strict=True)
                ]
                self._held = {each.member: {index: {} for index in self._indexes} for each in members}
                for index in self._indexes:
                    await self._produce(writer, name, index)
                for step in range(steps):
                    yield f"{step}: {await self._step(writer, name, self._rng.choice(members))}"

    async def _step(self, writer: RawClient, topic: str, member: ShareMember) -> str:
        who = member.member[0]
        if member.epoch == 0:
            found = await member.fetch(
                self._indexes, max_records=self._rng.choice(self._max_records), mode=self._mode
            )
            return f"{who} opens {self._told(member, found)}"
        action = self._rng.choices(
            ("fetch", "acknowledge", "both", "renew", "invalid", "produce", "close", "forget"),
            (8, 10, 6, 2, 2, 3, 1, 1),
        )[0]
        if action == "produce":
            await self._produce(writer, topic, self._rng.choice(self._indexes))
            return "produces"
        if action == "close":
            # All of them: Kafka releases the others after the response.
            acks = self._acks(member, whole=True)
            errors = await member.close(acks)
            told = f"{who} closes with {acks} {_names(errors)}"
            member.epoch = 0
            self._held[member.member] = {index: {} for index in self._indexes}
            return told
        if action == "forget":
            index = self._rng.choice(self._indexes)
            await member.fetch(forgotten=[index], max_wait_ms=0, max_records=0)
            found = await member.fetch([index], max_wait_ms=0, max_records=0)
            return f"{who} forgets {index} and lists it {self._told(member, found)}"
        if action == "renew":
            held = {
                index: [(min(offsets), min(offsets), [RENEW])]
                for index, offsets in self._held[member.member].items()
                if offsets
            }
            errors = await member.acknowledge(held, is_renew_ack=True) if held else {}
            return f"{who} renews {held} {_names(errors)}"
        if action == "invalid":
            acks = self._invalid()
            errors = await member.acknowledge(acks)
            return f"{who} acknowledges {acks} {_names(errors)}"
        if action == "acknowledge":
            acks = self._acks(member)
            errors = await member.acknowledge(acks) if acks else {}
            return f"{who} acknowledges {acks} {_names(errors)}"
        # Whether the fetch finds what the same request releases depends on how fast that is persisted.
        acks = self._acks(member, releases=False) if action == "both" else {}
        limits: dict[str, Any] = {
            "max_records": self._rng.choice(self._max_records),
            "batch_size": self._rng.choice([1, 4, 100]),
            "mode": self._mode,
            "max_wait_ms": 150,
        }
        found = await member.fetch(acks=acks, **limits)
        return f"{who} fetches {limits} with {acks} {self._told(member, found)}"

    def _acks(self, member: ShareMember, *, whole: bool = False, releases: bool = True) -> dict[int, Batches]:
        """Acknowledgements of some or all of the records that the member holds, forgetting them."""
        found: dict[int, Batches] = {}
        for index, held in self._held[member.member].items():
            batches: list[tuple[int, int, list[int]]] = []
            for first, last in _runs(held):
                if not whole and self._rng.random() < 0.3:
                    continue
                end = last if whole else self._rng.randint(first, last)
                types = (ACCEPT, ACCEPT, ACCEPT, REJECT, GAP, *((RELEASE, RELEASE) if releases else ()))
                if self._rng.random() < 0.5:
                    chosen = [self._rng.choice(types)]
                else:
                    chosen = [self._rng.choice(types) for _ in range(first, end + 1)]
                batches.append((first, end, chosen))
                for offset in range(first, end + 1):
                    del held[offset]
            if batches:
                found[index] = batches
        return found

    def _invalid(self) -> dict[int, Batches]:
        end = self._end[0]
        return {
            0: self._rng.choice(
                [
                    [(end + 5, end + 6, [ACCEPT])],
                    [(3, 2, [ACCEPT])],
                    [(0, 0, [9])],
                    [(0, 0, [RENEW])],
                    [(0, 3, [ACCEPT, ACCEPT])],
                    [(5, 5, [ACCEPT]), (1, 1, [ACCEPT])],
                    [(0, 0, [])],
                    [],
                ]
            )
        }

    def _told(self, member: ShareMember, found: Fetched) -> str:
        parts = [member.error.name, str(found.response.acquisition_lock_timeout_ms)]
        for index, result in sorted(found.partitions.items()):
            acquired = _joined(found.acquired(index))
            for first, last, _ in acquired:
                self._held[member.member][index].update(dict.fromkeys(range(first, last + 1)))
            parts.append(
                f"{index}: {ErrorCode(result.error_code).name} "
                f"{ErrorCode(result.acknowledge_error_code).name} {[tuple(each) for each in acquired]} "
                f"{found.values(index)}"
            )
        return " | ".join(parts)

    async def _produce(self, writer: RawClient, topic: str, index: int) -> None:
        for _ in range(self._rng.randint(1, 3)):
            size = self._rng.randint(1, 12)
            values = [f"{index}-{self._end[index] + at}".encode() for at in range(size)]
            await produce(writer, topic, index, *values)
            self._end[index] += size


async def produce(writer: RawClient, topic: str, index: int, *values: bytes) -> None:
    data = PartitionProduceData(index=index, records=batch_of(*values))
    request = ProduceRequest(
        acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    response = await writer.call(request, ProduceResponse, PRODUCE_BY_NAME)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def _names(errors: dict[int, ErrorCode]) -> dict[int, str]:
    return {index: error.name for index, error in sorted(errors.items())}


def _joined(acquired: list[Acquired]) -> list[Acquired]:
    """Ranges without gaps in between: where Kafka divides them depends on its cache of batches."""
    joined: list[Acquired] = []
    for each in acquired:
        if joined and joined[-1].last + 1 == each.first and joined[-1].delivery_count == each.delivery_count:
            joined[-1] = joined[-1]._replace(last=each.last)
        else:
            joined.append(each)
    return joined


def _runs(offsets: dict[int, None]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if runs and runs[-1][1] == offset - 1:
            runs[-1] = (runs[-1][0], offset)
        else:
            runs.append((offset, offset))
    return runs


async def create_topic(client: RawClient, name: str, partitions: int) -> Uuid:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    (result,) = (await client.call(request, CreateTopicsResponse)).topics
    assert result.error_code == ErrorCode.NONE, result.error_message
    return result.topic_id
