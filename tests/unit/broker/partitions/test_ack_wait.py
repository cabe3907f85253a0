"""Waiting for acks: every wait ends once, as soon as its appends are decided, whenever it began."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from ruslo.broker.partitions.ack_wait import AckResult, AckWait, PendingAck
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.partitions.replication import LeaderReplication
from ruslo.config.log_config import LogConfig
from tests.support.brokers.live_node import NOW
from tests.unit.broker.partitions.bench import NODE_ID, Bench, append, on_bench
from tests.unit.broker.partitions.test_partition import led_with_another

FOREVER_MS = 2**31 - 1
FOLLOWER = NODE_ID + 1


def replicate(replication: LeaderReplication, offset: int) -> None:
    """The follower has fetched everything before ``offset``."""
    replication.fetched(replication.follower(FOLLOWER, 1), offset, 0, 1, NOW)


def pending(partition: Partition, *values: bytes, acks_all: bool = True) -> PendingAck:
    append(partition, *values)
    return PendingAck(partition, partition.log.end_offset, partition.leader_epoch, acks_all)


def test_a_wait_that_begins_after_the_commit_ends_at_once(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        partition = bench.partition()
        replication = led_with_another(partition, 1)
        batch = pending(partition, b"a")
        replicate(replication, 1)
        acks: list[AckResult] = []
        AckWait((batch,), FOREVER_MS, acks.extend)
        assert acks == [AckResult.ACKED]

    on_bench(tmp_path, story)


def test_a_wait_that_begins_after_the_leadership_ended_is_fenced_at_once(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        partition = bench.partition()
        led_with_another(partition, 1)
        batch = pending(partition, b"a")
        for change in (lambda: partition.step_down(FOLLOWER, 2), lambda: partition.become_leader(3)):
            change()
            acks: list[AckResult] = []
            AckWait((batch,), FOREVER_MS, acks.extend)
            assert acks == [AckResult.FENCED], "the offset may hold another leader's record"

    on_bench(tmp_path, story)


def test_waits_end_by_offset_whatever_the_order_in_which_they_began(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        partition = bench.partition()
        replication = led_with_another(partition, 1)
        first, second = pending(partition, b"a"), pending(partition, b"b")
        acked: list[int] = []
        AckWait((second,), FOREVER_MS, lambda _: acked.append(2))
        AckWait((first,), FOREVER_MS, lambda _: acked.append(1))
        replicate(replication, 1)
        assert acked == [1]
        replicate(replication, 2)
        assert acked == [1, 2]

    on_bench(tmp_path, story)


def test_acks_1_waits_for_the_own_copy_only(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        partition = bench.partition(config=LogConfig(flush_messages=1))
        led_with_another(partition, 1)
        bench.disk.free.clear()
        done: asyncio.Future[list[AckResult]] = asyncio.get_running_loop().create_future()
        AckWait((pending(partition, b"a", acks_all=False),), FOREVER_MS, done.set_result)
        assert not done.done(), "not synced yet"
        bench.disk.free.set()
        assert await done == [AckResult.ACKED]
        assert partition.log.high_watermark == 0, "no follower has it"

    on_bench(tmp_path, story)


def test_acks_1_is_not_fenced_when_the_last_follower_is_removed(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        partition = bench.partition(config=LogConfig(flush_messages=1))
        led_with_another(partition, 1)
        bench.disk.free.clear()
        done: asyncio.Future[list[AckResult]] = asyncio.get_running_loop().create_future()
        AckWait((pending(partition, b"a", acks_all=False),), FOREVER_MS, done.set_result)
        partition.become_leader(1)
        bench.disk.free.set()
        assert await done == [AckResult.ACKED]

    on_bench(tmp_path, story)


def test_a_new_epoch_of_the_same_leader_does_not_fence(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        partition = bench.partition()
        led_with_another(partition, 1)
        batch = pending(partition, b"a")
        acks: list[AckResult] = []
        AckWait((batch,), FOREVER_MS, acks.extend)
        replication = led_with_another(partition, 2)
        assert acks == []
        replicate(replication, 1)
        assert acks == [AckResult.ACKED], "the leader has truncated nothing: the offset holds the same batch"

    on_bench(tmp_path, story)


def test_a_wait_lasts_until_its_last_append_is_decided(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        one, other = bench.partition("one"), bench.partition("other")
        replication = led_with_another(one, 1)
        led_with_another(other, 1)
        acks: list[AckResult] = []
        AckWait((pending(one, b"a"), pending(other, b"b")), FOREVER_MS, acks.extend)
        replicate(replication, 1)
        assert acks == []
        other.step_down(FOLLOWER, 2)
        assert acks == [AckResult.ACKED, AckResult.FENCED]

    on_bench(tmp_path, story)


@pytest.mark.parametrize("timeout_ms", [1, 0, -5])
def test_a_wait_that_takes_too_long_ends_once(tmp_path: Path, timeout_ms: int) -> None:
    async def story(bench: Bench) -> None:
        partition = bench.partition()
        replication = led_with_another(partition, 1)
        done: asyncio.Future[list[AckResult]] = asyncio.get_running_loop().create_future()
        AckWait((pending(partition, b"a"),), timeout_ms, done.set_result)
        assert await done == [AckResult.TIMED_OUT]
        replicate(replication, 1)

    on_bench(tmp_path, story)


@pytest.mark.parametrize("seed", range(40))
def test_no_wake_up_is_lost_in_any_order_of_events(tmp_path: Path, seed: int) -> None:
    """Appends, waits that begin late and in any order, fetches of the follower and changes of the leader."""

    async def story(bench: Bench) -> None:
        rng = random.Random(seed)
        partition = bench.partition()
        replication = led_with_another(partition, 1)
        epoch = 1
        not_waiting: list[PendingAck] = []
        waiting: dict[int, PendingAck] = {}
        ended: dict[int, AckResult] = {}

        def begin(batch: PendingAck) -> None:
            number = len(waiting)
            waiting[number] = batch

            def end(acks: list[AckResult]) -> None:
                assert number not in ended, "a wait ends once"
                (ended[number],) = acks

            AckWait((batch,), FOREVER_MS, end)

        for _ in range(60):
            event = rng.choice(("append", "append", "wait", "wait", "fetch", "election"))
            if event == "append":
                not_waiting.append(pending(partition, b"a", acks_all=rng.random() < 0.7))
            elif event == "wait" and not_waiting:
                begin(not_waiting.pop(rng.randrange(len(not_waiting))))
            elif event == "fetch":
                replicate(replication, rng.randint(partition.log.high_watermark, partition.log.end_offset))
            elif event == "election":
                epoch += 1
                if rng.random() < 0.5:
                    partition.step_down(FOLLOWER, epoch)
                    epoch += 1
                replication = led_with_another(partition, epoch)
            for number, batch in waiting.items():
                assert number in ended or partition.ack_result(batch) is None, "a wake-up was lost"

        replicate(replication, partition.log.end_offset)
        for batch in not_waiting:
            begin(batch)
        assert ended.keys() == waiting.keys()

    on_bench(tmp_path, story)
