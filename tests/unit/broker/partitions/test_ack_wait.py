"""Waiting for acks: every wait ends once, as soon as its appends are committed or failed."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from ruslo.broker.partitions.ack_wait import AckResult, AckWait, Appended
from ruslo.broker.partitions.leader import PartitionLeader
from ruslo.config.log_config import LogConfig
from tests.support.brokers.live_node import NOW
from tests.unit.broker.partitions.bench import NODE_ID, append, on_bench
from tests.unit.broker.partitions.test_partition import lead_with_follower

FOREVER_MS = 2**31 - 1
FOLLOWER = NODE_ID + 1


def replicate(leader: PartitionLeader, offset: int) -> None:
    """The follower has fetched everything before ``offset``."""
    leader.on_follower_fetch(leader.follower(FOLLOWER, 1), offset, 0, 1, NOW)


async def test_a_wait_that_begins_after_the_commit_ends_at_once(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        partition = bench.partition()
        leader = lead_with_follower(partition, 1)
        appended = append(partition, b"a")
        assert not appended.committed
        replicate(leader, 1)
        acks: list[AckResult] = []
        appended.when_committed(FOREVER_MS, acks.append)
        assert acks == [AckResult.ACKED]


async def test_a_wait_that_begins_after_the_leadership_ended_is_fenced_at_once(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        partition = bench.partition()
        lead_with_follower(partition, 1)
        appended = append(partition, b"a")
        for change in (lambda: partition.become_follower(FOLLOWER, 2), lambda: partition.become_leader(3)):
            change()
            acks: list[AckResult] = []
            appended.when_committed(FOREVER_MS, acks.append)
            assert acks == [AckResult.NOT_LEADER], "the offset may hold another leader's record"


async def test_waits_end_by_offset_in_any_order(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        partition = bench.partition()
        leader = lead_with_follower(partition, 1)
        first, second = append(partition, b"a"), append(partition, b"b")
        acked: list[int] = []
        second.when_committed(FOREVER_MS, lambda _: acked.append(2))
        first.when_committed(FOREVER_MS, lambda _: acked.append(1))
        replicate(leader, 1)
        assert acked == [1]
        replicate(leader, 2)
        assert acked == [1, 2]


async def test_an_empty_append_is_committed_when_everything_before_it_is(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        partition = bench.partition()
        leader = lead_with_follower(partition, 1)
        assert partition.empty_append().committed
        append(partition, b"a")
        acks: list[AckResult] = []
        partition.empty_append().when_committed(FOREVER_MS, acks.append)
        assert acks == []
        replicate(leader, 1)
        assert acks == [AckResult.ACKED]


async def test_acks_1_waits_for_the_leaders_own_copy_only(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        partition = bench.partition(config=LogConfig(flush_messages=1))
        lead_with_follower(partition, 1)
        bench.disk.free.clear()
        done: asyncio.Future[list[AckResult]] = asyncio.get_running_loop().create_future()
        AckWait((append(partition, b"a"),), FOREVER_MS, done.set_result, acks_all=False)
        assert not done.done(), "not synced yet"
        bench.disk.free.set()
        assert await done == [AckResult.ACKED]
        assert partition.log.high_watermark == 0, "the follower does not have the record"


async def test_acks_1_is_not_fenced_when_the_last_follower_is_removed(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        partition = bench.partition(config=LogConfig(flush_messages=1))
        lead_with_follower(partition, 1)
        bench.disk.free.clear()
        done: asyncio.Future[list[AckResult]] = asyncio.get_running_loop().create_future()
        AckWait((append(partition, b"a"),), FOREVER_MS, done.set_result, acks_all=False)
        partition.become_leader(1)
        bench.disk.free.set()
        assert await done == [AckResult.ACKED]


async def test_a_new_epoch_of_the_same_leader_does_not_fence(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        partition = bench.partition()
        lead_with_follower(partition, 1)
        acks: list[AckResult] = []
        append(partition, b"a").when_committed(FOREVER_MS, acks.append)
        leader = lead_with_follower(partition, 2)
        assert acks == []
        replicate(leader, 1)
        assert acks == [AckResult.ACKED], "the leader has truncated nothing: the offset holds the same batch"


async def test_a_wait_lasts_until_its_last_append_is_decided(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        one, other = bench.partition("one"), bench.partition("other")
        leader = lead_with_follower(one, 1)
        lead_with_follower(other, 1)
        acks: list[AckResult] = []
        AckWait((append(one, b"a"), append(other, b"b")), FOREVER_MS, acks.extend)
        replicate(leader, 1)
        assert acks == []
        other.become_follower(FOLLOWER, 2)
        assert acks == [AckResult.ACKED, AckResult.NOT_LEADER]


@pytest.mark.parametrize("timeout_ms", [1, 0, -5])
async def test_a_wait_that_times_out_ends_once(tmp_path: Path, timeout_ms: int) -> None:
    async with on_bench(tmp_path) as bench:
        partition = bench.partition()
        leader = lead_with_follower(partition, 1)
        done: asyncio.Future[AckResult] = asyncio.get_running_loop().create_future()
        append(partition, b"a").when_committed(timeout_ms, done.set_result)
        assert await done is AckResult.TIMED_OUT
        replicate(leader, 1)


@pytest.mark.parametrize("seed", range(40))
async def test_no_wake_up_is_lost_in_any_order_of_events(tmp_path: Path, seed: int) -> None:
    """Appends, waits in any order, fetches of the follower and leader changes are interleaved at random."""
    async with on_bench(tmp_path) as bench:
        rng = random.Random(seed)
        partition = bench.partition()
        leader = lead_with_follower(partition, 1)
        epoch = 1
        not_waiting: list[tuple[Appended, bool]] = []
        waiting: dict[int, tuple[Appended, bool]] = {}
        ended: dict[int, AckResult] = {}

        def begin(appended: Appended, acks_all: bool) -> None:
            number = len(waiting)
            waiting[number] = appended, acks_all

            def end(acks: list[AckResult]) -> None:
                assert number not in ended, "a wait ends once"
                (ended[number],) = acks

            AckWait((appended,), FOREVER_MS, end, acks_all)

        for _ in range(60):
            event = rng.choice(("append", "append", "wait", "wait", "fetch", "election"))
            if event == "append":
                not_waiting.append((append(partition, b"a"), rng.random() < 0.7))
            elif event == "wait" and not_waiting:
                begin(*not_waiting.pop(rng.randrange(len(not_waiting))))
            elif event == "fetch":
                replicate(leader, rng.randint(partition.log.high_watermark, partition.log.end_offset))
            elif event == "election":
                epoch += 1
                if rng.random() < 0.5:
                    partition.become_follower(FOLLOWER, epoch)
                    epoch += 1
                leader = lead_with_follower(partition, epoch)
            for number, each in waiting.items():
                assert number in ended or partition.ack_result(*each) is None, "a wake-up was lost"

        replicate(leader, partition.log.end_offset)
        for each in not_waiting:
            begin(*each)
        assert ended.keys() == waiting.keys()
