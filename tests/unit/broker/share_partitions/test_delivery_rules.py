"""Order by key, delayed delivery and retry backoff of share groups, over the wire."""

from __future__ import annotations

from pathlib import Path

from ruslo.model.clock import SystemClock
from ruslo.model.errors import ErrorCode
from ruslo.records.builder import build_batch
from ruslo.records.compression import Codec
from ruslo.records.record import Record
from tests.support.brokers.live_node import NOW
from tests.support.share.live_share_node import ShareNode, share_node
from tests.support.share.share_client import ACCEPT, REJECT, RELEASE, Acquired, ShareMember

OTHER = "BBBBBBBBBBBBBBBBBBBBBB"
HOUR_MS = 3_600_000


async def produce(node: ShareNode, *records: tuple[str, str | None], codec: Codec = Codec.NONE) -> None:
    """Produce a batch of records with these keys and delays."""
    batch = build_batch(
        [
            Record(at, NOW, key.encode(), key.encode(), () if delay is None else (("due", delay.encode()),))
            for at, (key, delay) in enumerate(records)
        ],
        codec=codec,
    )
    result = await node.node.produce(node.writer, batch)
    assert result.error_code == ErrorCode.NONE


async def first_offsets(member: ShareMember) -> list[int]:
    """The offsets that the first fetch acquires, which waits until the share-partition is loaded."""
    return await offsets(member, (0,), max_wait_ms=10_000)


async def offsets(member: ShareMember, partitions: tuple[int, ...] = (), max_wait_ms: int = 0) -> list[int]:
    fetched = await member.fetch(partitions, max_wait_ms=max_wait_ms)
    return [offset for first, last, _ in fetched.acquired() for offset in range(first, last + 1)]


async def test_one_record_of_a_key_is_in_flight(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member() as one, node.member(OTHER) as two:
        await node.node.alter_group("g", ruslo_share_order="key")
        await produce(node, ("a", None), ("b", None), ("a", None), ("c", None), codec=Codec.ZSTD)
        await produce(node, ("b", None), ("a", None))
        assert await first_offsets(one) == [0, 1, 3]
        assert await offsets(two, (0,)) == []
        assert await one.acknowledge({0: [(0, 0, [ACCEPT]), (1, 1, [RELEASE])]}) == {0: ErrorCode.NONE}
        # The next record of key a, and the released one of b before those behind it.
        assert await offsets(two) == [1, 2]
        assert await two.acknowledge({0: [(1, 1, [REJECT])]}) == {0: ErrorCode.NONE}
        assert await offsets(one) == [4]
        await two.close()
        assert await offsets(one, max_wait_ms=10_000) == [2]


async def test_a_released_record_waits_for_its_backoff(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member() as member:
        await node.node.alter_group(
            "g", ruslo_share_retry_backoff_ms=str(HOUR_MS), ruslo_share_retry_backoff_max_ms=str(HOUR_MS)
        )
        await produce(node, ("a", None), ("b", None))
        assert await first_offsets(member) == [0, 1]
        await member.acknowledge({0: [(0, 0, [RELEASE])]})
        assert await offsets(member) == []
        await node.node.alter_group("g", ruslo_share_retry_backoff_ms="1")
        await member.acknowledge({0: [(1, 1, [RELEASE])]})
        found = await member.fetch(max_wait_ms=10_000)
        assert found.acquired() == [Acquired(1, 1, 2)]


async def test_a_delayed_record_waits_for_its_time(tmp_path: Path) -> None:
    async with share_node(tmp_path) as node, node.member() as member:
        await node.node.alter_group("g", ruslo_share_delay_header="due")
        now_ms = SystemClock().now_ms()
        await produce(
            node,
            ("later", f"+{now_ms - NOW + HOUR_MS}"),
            ("past", "1000"),
            ("soon", f"{now_ms + 300}"),
            ("unclear", "tomorrow"),
            ("now", None),
        )
        first = await first_offsets(member)
        assert [offset for offset in first if offset != 2] == [1, 3, 4]
        if 2 not in first:
            assert await offsets(member, max_wait_ms=10_000) == [2]


async def test_the_order_begins_with_records_in_flight(tmp_path: Path) -> None:
    """The keys of records that were acquired before are unknown, so their locks end."""
    async with share_node(tmp_path) as node, node.member() as member:
        await produce(node, ("a", None), ("a", None))
        assert await first_offsets(member) == [0, 1]
        await node.node.alter_group("g", ruslo_share_order="key")
        assert await offsets(member, max_wait_ms=10_000) == [0]
