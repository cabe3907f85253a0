"""Generated requests of share consumers get the responses of Apache Kafka: records, counts and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from ruslo.model.errors import ErrorCode
from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.node import Node
from tests.support.brokers.ruslo import RusloNode
from tests.support.clients.raw_client import connected
from tests.support.share.share_client import (
    ACCEPT,
    MEMBER,
    RELEASE,
    RENEW,
    SMALL,
    ShareMember,
    initialize,
)
from tests.support.share.share_script import ShareScript, create_topic, produce
from tests.support.tools.programs import require_tool

SEEDS = range(1, 9)
STEPS = 50
OTHER = "BBBBBBBBBBBBBBBBBBBBBB"


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Node]]:
    require_tool("java")
    directory = tmp_path_factory.mktemp("share")
    with (
        ApacheKafka(directory / "kafka", properties=SMALL) as kafka,
        RusloNode(directory / "ruslo", properties=SMALL) as ruslo,
    ):
        yield kafka, ruslo


@pytest.mark.parametrize("seed", SEEDS)
async def test_random_requests_get_the_same_responses(seed: int, brokers: tuple[Node, Node]) -> None:
    expected, found = await asyncio.gather(*(_transcript(each.bootstrap, seed) for each in brokers))
    for at, (line, ours) in enumerate(zip(expected, found, strict=True)):
        assert ours == line, "\n".join(["after", *expected[max(at - 8, 0) : at]])


async def _transcript(bootstrap: str, seed: int) -> list[str]:
    return [line async for line in ShareScript(bootstrap, seed).run(STEPS)]


async def test_a_story_of_two_members_is_told_the_same(brokers: tuple[Node, Node]) -> None:
    expected, found = await asyncio.gather(*(_story(each.bootstrap) for each in brokers))
    assert found == expected


async def _story(bootstrap: str) -> list[str]:
    """Sessions and their errors, redelivery, and what a lost connection and a closed session release."""
    told: list[str] = []
    async with connected(bootstrap) as writer, connected(bootstrap) as other_client:
        topic = await create_topic(writer, "story", 2)
        await initialize(writer, topic, partitions=2, group="story")
        other = ShareMember(other_client, topic, "story", OTHER)

        def tell(what: str, member: ShareMember, *details: object) -> None:
            told.append(f"{what}: {member.error.name} {details}")

        tell("unknown session", other, (await other.fetch(epoch=5)).partitions)
        tell("unknown session", other, await other.acknowledge({0: [(0, 0, [ACCEPT])]}, epoch=5))
        tell("acknowledge opens", other, await other.acknowledge({}, epoch=0))
        tell("close nothing", other, await other.close())
        tell("final fetch", other, (await other.fetch(epoch=-1)).partitions)
        tell("acknowledge at first", other, (await other.fetch(epoch=0, acks={0: [(0, 0, [1])]})).partitions)
        tell("renew fetches", other, (await other.fetch([0], epoch=0, is_renew_ack=True)).partitions)
        found = await other.fetch([0, 9], epoch=0, max_wait_ms=1_000)
        tell("no such partition", other, found.error(9).name, found.acquired(0))
        tell("late epoch", other, (await other.fetch(epoch=77)).partitions)
        for value in (b"a", b"b", b"c"):
            await produce(writer, "story", 0, value)
        async with connected(bootstrap) as client:
            member = ShareMember(client, topic, "story", MEMBER)
            found = await member.fetch([0], max_records=2)
            tell("two records", member, found.acquired(), found.values())
            tell("another owner", other, await _acknowledge(other, 0, 0, ACCEPT))
            found = await other.fetch([0], epoch=0, max_wait_ms=2_000)
            tell("the third", other, found.acquired())
            tell("renewed", member, await member.acknowledge({0: [(0, 0, [RENEW])]}, is_renew_ack=True))
            tell("renewed in v1", member, await member.acknowledge({0: [(0, 0, [RENEW])]}, version=1))
        # The connection of the member is lost: its records are released.
        found = await other.fetch(max_wait_ms=10_000, acks={0: [(2, 2, [RELEASE])]})
        while len(found.acquired()) == 0:
            found = await other.fetch(max_wait_ms=10_000)
        counts = {offset: each.delivery_count for each in found.acquired() for offset in (each.first,)}
        tell("again", other, counts.get(0), found.acknowledge_error(0) if 0 in found.partitions else None)
        tell("closed", other, await other.close({0: [(0, 0, [ACCEPT])]}))
        tell("after the end", other, (await other.fetch(epoch=3)).partitions)
    return told


async def _acknowledge(member: ShareMember, first: int, last: int, kind: int) -> list[ErrorCode]:
    errors = await member.acknowledge({0: [(first, last, [kind])]})
    return list(errors.values())
