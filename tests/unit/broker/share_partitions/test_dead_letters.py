"""Dead-letter topics of share groups (KIP-1191) on a node, over the wire."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ruslo.machines.share_partition.states import RecordState
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.write_share_group_state_response import WriteShareGroupStateResponse
from ruslo.records.record import Record
from tests.support.brokers.live_node import live_node, records_in, until
from tests.support.clients.raw_client import connected
from tests.support.share.live_share_node import ShareNode, share_node
from tests.support.share.share_client import (
    ACCEPT,
    REJECT,
    RELEASE,
    SMALL,
    Acquired,
    ShareMember,
    member_on,
)
from tests.support.share.state_requests import write_request

TAKES_LETTERS = {"errors_deadletterqueue_group_enable": "true"}
NAMES_TOPIC = {"errors_deadletterqueue_topic_name": "dlq.t"}
COPIES = {"errors_deadletterqueue_copy_record_enable": "true"}
REJECTED = b"Offset rejected by client."
LIMIT_REACHED = b"Offset delivery count exceeded the threshold."


async def ready(node: ShareNode, topic: Mapping[str, str] | None = None, **group: str) -> None:
    await node.node.create("dlq.t", 1, **TAKES_LETTERS, **(topic or {}))
    await node.node.alter_group("g", **NAMES_TOPIC, **group)


async def reject(node: ShareNode, member: ShareMember, *values: bytes) -> None:
    await node.produce(*values)
    last = len(values) - 1
    assert (await member.fetch([0])).acquired() == [Acquired(0, last, 1)]
    assert await member.acknowledge({0: [(0, last, [REJECT])]}) == {0: ErrorCode.NONE}


async def dead_letters(node: ShareNode, count: int, index: int = 0) -> list[Record]:
    """Once the group has so many; the start offset has passed them then."""
    await until(lambda: node.shares.counters.dead_letters["g"] >= count)
    partition = await node.node.fetch(node.writer, topic="dlq.t", index=index)
    return records_in(partition.records)


def start_offsets(node: ShareNode) -> list[int]:
    return [led.machine.start_offset for led in node.shares if led.machine is not None]


def facts(letter: Record) -> tuple[bytes | None, bytes | None, bytes | None]:
    """Offset, delivery count and message."""
    headers = {name.removeprefix("__dlq.errors."): value for name, value in letter.headers}
    return headers["offset"], headers["delivery.count"], headers["message"]


async def test_a_rejected_record_becomes_a_dead_letter_with_headers(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member() as member:
        await ready(node)
        await reject(node, member, b"a", b"b")
        first, second = await dead_letters(node, 2)
        assert (first.key, first.value) == (None, None)
        assert first.headers == (
            ("__dlq.errors.topic", b"t"),
            ("__dlq.errors.partition", b"0"),
            ("__dlq.errors.offset", b"0"),
            ("__dlq.errors.group", b"g"),
            ("__dlq.errors.delivery.count", b"1"),
            ("__dlq.errors.message", REJECTED),
        )
        assert facts(second) == (b"1", b"1", REJECTED)
        await until(lambda: start_offsets(node) == [2])


async def test_a_dead_letter_has_key_and_value_if_the_group_wants_them(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member() as member:
        await ready(node, {}, **COPIES)
        await reject(node, member, b"a", b"b")
        assert [letter.value for letter in await dead_letters(node, 2)] == [b"a", b"b"]


async def test_the_message_tells_rejected_records_from_those_at_the_delivery_limit(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member() as member:
        await ready(node, share_delivery_count_limit="2")
        await node.produce(b"a", b"b", b"c")
        await member.fetch([0])
        await member.acknowledge({0: [(0, 2, [RELEASE])]})
        assert (await member.fetch()).acquired() == [Acquired(0, 2, 2)]
        await member.acknowledge({0: [(0, 2, [RELEASE, ACCEPT, REJECT])]})
        letters = await dead_letters(node, 2)
        assert [facts(letter) for letter in letters] == [(b"0", b"2", LIMIT_REACHED), (b"2", b"2", REJECTED)]


async def test_an_expired_lock_at_the_delivery_limit_makes_a_dead_letter(tmp_path: Path) -> None:
    properties = {"group.share.min.record.lock.duration.ms": "1000"}
    async with share_node(tmp_path, properties=properties) as node, node.member() as member:
        await ready(node, share_delivery_count_limit="2", share_record_lock_duration_ms="1000")
        await node.produce(b"a")
        await member.fetch([0])
        await member.acknowledge({0: [(0, 0, [RELEASE])]})
        assert (await member.fetch()).acquired() == [Acquired(0, 0, 2)]
        (letter,) = await dead_letters(node, 1)
        assert facts(letter) == (b"0", b"2", LIMIT_REACHED)


async def test_a_batch_of_dead_letters_fits_into_the_topic(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member() as member:
        await ready(node, {"max_message_bytes": "2000"}, **COPIES)
        await reject(node, member, b"a" * 500, b"b" * 5_000, b"c" * 500)
        assert [(letter.value or b"")[:1] for letter in await dead_letters(node, 2)] == [b"a", b"c"]
        assert node.shares.counters.lost_dead_letters["g"] == 1


async def test_the_partition_follows_from_that_of_the_record(tmp_path: Path) -> None:
    async with share_node(tmp_path, 3) as node, node.member() as member:
        await node.node.create("dlq.t", 2, **TAKES_LETTERS)
        await node.node.alter_group("g", **NAMES_TOPIC)
        for index in range(3):
            await node.produce(b"%d" % index, index=index)
            await member.fetch([index])
            await member.acknowledge({index: [(0, 0, [REJECT])]})
        assert len(await dead_letters(node, 3)) == 2
        assert len(await dead_letters(node, 3, index=1)) == 1


@pytest.mark.parametrize(
    ("topic", "switches", "reason"),
    [
        ("dlq.missing", None, "does not exist"),
        ("dlq.off", {}, "takes no dead letters"),
        ("letters", TAKES_LETTERS, "does not begin with dlq."),
    ],
)
async def test_without_a_usable_topic_records_are_archived_and_the_reason_is_logged_once(
    tmp_path: Path,
    topic: str,
    switches: dict[str, str] | None,
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with share_node(tmp_path) as node, node.member() as member:
        if switches is not None:
            await node.node.create(topic, 1, **switches)
        await node.node.alter_group("g", errors_deadletterqueue_topic_name=topic)
        await reject(node, member, b"a", b"b")
        await until(lambda: start_offsets(node) == [2])
        await node.produce(b"c")
        await member.fetch()
        await member.acknowledge({0: [(2, 2, [REJECT])]})
        await until(lambda: start_offsets(node) == [3])
        assert node.shares.counters.lost_dead_letters["g"] == 3
    (logged,) = [each.message for each in caplog.records if "without dead letters" in each.message]
    assert reason in logged


async def test_the_topic_is_created_if_the_cluster_allows_it(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member() as member:
        await node.node.alter_all_brokers(errors_deadletterqueue_auto_create_topics_enable="true")
        await node.node.alter_group("g", **NAMES_TOPIC)
        await reject(node, member, b"a")
        assert len(await dead_letters(node, 1)) == 1
        config = node.node.partition("dlq.t").log.config
        assert config.errors_deadletterqueue_group_enable


async def test_a_leader_that_loads_a_record_in_copy_copies_it(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node:
        await ready(node, share_delivery_count_limit="3")
        await node.produce(b"a", b"b", b"c")
        archiving = RecordState.ARCHIVING
        state = write_request((0, 0, archiving, 1), (1, 1, archiving, 3), topic=node.topic)
        written = await node.writer.call(state, WriteShareGroupStateResponse)
        assert written.results[0].partitions[0].error_code == ErrorCode.NONE
        async with node.member() as member:
            assert (await member.fetch([0])).acquired() == [Acquired(2, 2, 1)]
            letters = await dead_letters(node, 2)
            assert [facts(each) for each in letters] == [
                (b"0", b"1", REJECTED),
                (b"1", b"3", LIMIT_REACHED),
            ]
            await until(lambda: start_offsets(node) == [2])


async def test_a_record_is_copied_again_after_a_restart_only_if_it_was_not_archived(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member() as member:
        await ready(node)
        await reject(node, member, b"a")
        await until(lambda: start_offsets(node) == [1])
    async with live_node(tmp_path, SMALL) as live, connected(live.bootstrap) as writer:
        node = ShareNode(live, writer, live.topic_id("t"))
        await node.produce(b"b")
        async with member_on(live.bootstrap, node.topic) as member:
            found = await member.fetch([0])
            while not found.acquired():
                found = await member.fetch()
            assert found.acquired() == [Acquired(1, 1, 1)]
        assert len(records_in((await live.fetch(writer, topic="dlq.t")).records)) == 1


async def test_a_circuit_breaker_pauses_delivery_until_probes_succeed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with share_node(tmp_path) as node, node.member() as member:
        await node.node.alter_group("g", ruslo_share_breaker_percent="50", ruslo_share_breaker_pause_ms="100")
        await reject(node, member, *[b"a"] * 20)
        await node.produce(*[b"b"] * 10)
        found = await member.fetch()
        assert found.acquired() == [Acquired(20, 24, 1)]
        await member.acknowledge({0: [(20, 24, [ACCEPT])]})
        assert (await member.fetch()).acquired() == [Acquired(25, 29, 1)]
    changes = [each.message for each in caplog.records if "circuit breaker" in each.message]
    assert [text.removeprefix("The circuit breaker of g:t-0 is ") for text in changes] == [
        "open.",
        "half open.",
        "closed.",
    ]
