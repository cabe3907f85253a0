"""A partition: roles, epochs, the high watermark with and without syncs, leaving."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ruslo.broker.partitions.ack_wait import AckResult
from ruslo.broker.partitions.isr_expansion import IsrExpansion
from ruslo.broker.partitions.leader import PartitionLeader, Replicas, ReplicationSettings
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.partitions.purgatory import DelayedFetch
from ruslo.broker.partitions.replication_quota import ReplicationQuota
from ruslo.broker.scheduling.scheduler import Scheduler
from ruslo.config.log_config import LogConfig
from ruslo.model.clock import SystemClock
from ruslo.model.errors import ErrorCode, KafkaError
from tests.support.brokers.live_node import NOW, batch_of, until
from tests.unit.broker.partitions.bench import NODE_ID, Bench, append, on_bench

FOREVER_MS = 2**31 - 1


class AllAlive:
    def eligible_epoch(self, broker_id: int) -> int | None:
        return 1


def lead_with_follower(
    partition: Partition, leader_epoch: int, isr: tuple[int, ...] = (NODE_ID, NODE_ID + 1)
) -> PartitionLeader:
    """Another broker holds a replica too."""
    clock = SystemClock()
    settings = ReplicationSettings(
        AllAlive(),
        30_000,
        clock,
        lambda *_: None,
        ReplicationQuota(lambda: 1 << 40, clock),
        IsrExpansion(Scheduler(clock)),
    )
    partition.become_leader(leader_epoch, Replicas(0, (NODE_ID, NODE_ID + 1), isr), settings)
    assert partition.leader is not None
    return partition.leader


def test_only_a_leader_takes_records(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        partition = bench.partition(leads=False)
        with pytest.raises(KafkaError) as refused:
            append(partition, b"a")
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition.become_leader(5)
        assert append(partition, b"a").base_offset == 0
        assert partition.log.epochs.epoch_at(0) == 5
        partition.become_follower(2, 6)
        assert not partition.is_leader
        with pytest.raises(KafkaError) as refused:
            append(partition, b"b")
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    on_bench(tmp_path, story)


def test_internal_topics_take_nothing_from_clients(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        with pytest.raises(KafkaError) as refused:
            append(bench.partition("__consumer_offsets"), b"a")
        assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION

    on_bench(tmp_path, story)


def test_epochs_of_clients(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        partition = bench.partition()
        partition.become_leader(3)
        assert partition.check_epoch(-1) is ErrorCode.NONE
        assert partition.check_epoch(3) is ErrorCode.NONE
        assert partition.check_epoch(2) is ErrorCode.FENCED_LEADER_EPOCH
        assert partition.check_epoch(4) is ErrorCode.UNKNOWN_LEADER_EPOCH
        partition.become_follower(2, 4)
        assert partition.check_epoch(4) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    on_bench(tmp_path, story)


def test_what_a_follower_has_synced_is_not_committed(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        partition = bench.partition()
        append(partition, b"a")
        partition.become_follower(2, 1)
        partition.follower.append(memoryview(batch_of(b"b", base_offset=1)), 1, NOW)
        partition.request_sync()
        await until(lambda: partition.log.recovery_point == 2)
        assert partition.log.high_watermark == 1

    on_bench(tmp_path, story)


def test_a_follower_that_is_behind_does_not_send_its_readers_back(tmp_path: Path) -> None:
    """KIP-392: OFFSET_OUT_OF_RANGE would make a consumer give its position up."""

    async def story(bench: Bench) -> None:
        partition = bench.partition()
        append(partition, b"a")
        for leads, code in (
            (True, ErrorCode.OFFSET_OUT_OF_RANGE),
            (False, ErrorCode.OFFSET_NOT_AVAILABLE),
        ):
            if not leads:
                partition.become_follower(2, 1)
            with pytest.raises(KafkaError) as refused:
                partition.read(5, 1000, False, True)
            assert refused.value.code is code

    on_bench(tmp_path, story)


def test_bytes_behind_the_batch_are_cut_off(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        partition = bench.partition()
        batch = batch_of(b"a")
        partition.append(memoryview(batch + b"tail"), NOW)
        assert partition.log.size_bytes == len(batch)

    on_bench(tmp_path, story)


def test_without_syncs_everything_appended_is_safe_at_once(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        partition = bench.partition()
        bench.disk.syncs.clear()
        append(partition, b"a", b"b")
        assert partition.log.high_watermark == 2
        await asyncio.sleep(0.01)
        assert bench.disk.syncs == []

    on_bench(tmp_path, story)


def test_the_high_watermark_follows_the_syncs(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        partition = bench.partition(config=LogConfig(flush_messages=1))
        bench.disk.free.clear()
        first = append(partition, b"a")
        await asyncio.to_thread(bench.disk.started.wait, 10)
        second = append(partition, b"b")
        assert partition.log.high_watermark == 0
        acked: list[int] = []
        for appended in (first, second):
            appended.when_committed(FOREVER_MS, lambda _: acked.append(partition.log.high_watermark))
        bench.disk.free.set()
        await until(lambda: len(acked) == 2)
        assert acked == [1, 2], "the first sync did not cover the second append"
        assert partition.log.recovery_point == 2

    on_bench(tmp_path, story)


def test_readers_hear_of_bytes_once_they_are_safe(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        partition = bench.partition(config=LogConfig(flush_messages=1))
        bench.disk.free.clear()
        bench.disk.started.clear()
        seen: list[int] = []
        size = len(batch_of(b"a"))
        DelayedFetch(
            [partition.delayed_fetches],
            size,
            False,
            FOREVER_MS,
            lambda: seen.append(partition.log.high_watermark),
        )
        append(partition, b"a")
        await asyncio.to_thread(bench.disk.started.wait, 10)
        await asyncio.sleep(0)
        assert seen == []
        bench.disk.free.set()
        await until(lambda: bool(seen))
        assert seen == [1]

    on_bench(tmp_path, story)


def reader_of(partition: Partition) -> list[int]:
    """Filled with the high watermark that ends its wait for a byte."""
    seen: list[int] = []
    DelayedFetch(
        [partition.delayed_fetches], 1, False, FOREVER_MS, lambda: seen.append(partition.log.high_watermark)
    )
    return seen


def test_readers_of_a_follower_hear_of_records_that_came_before_they_were_committed(tmp_path: Path) -> None:
    """KIP-392: the leader's word that they are comes with its next answer, and with no bytes."""

    async def story(bench: Bench) -> None:
        partition = bench.partition(leads=False)
        partition.become_follower(NODE_ID + 1, 1)
        seen = reader_of(partition)
        batch = batch_of(b"a", leader_epoch=1)
        partition.follower.append(memoryview(batch), partition.leader_epoch, NOW)
        partition.follower.on_leader_offsets(0, 0, len(batch))
        await asyncio.sleep(0)
        assert seen == []
        partition.follower.on_leader_offsets(1, 0, 0)
        await until(lambda: bool(seen))
        assert seen == [1]

    on_bench(tmp_path, story)


def test_readers_of_a_new_leader_hear_of_records_of_the_leader_before(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        partition = bench.partition(leads=False)
        partition.become_follower(NODE_ID + 1, 1)
        partition.follower.append(memoryview(batch_of(b"a", leader_epoch=1)), 1, NOW)
        leader = lead_with_follower(partition, leader_epoch=2)
        seen = reader_of(partition)
        leader.on_follower_fetch(leader.follower(NODE_ID + 1, 1), 1, 0, 1, now_ms=0)
        await until(lambda: bool(seen))
        assert seen == [1]

    on_bench(tmp_path, story)


def test_what_had_too_few_copies_is_committed_when_fewer_are_asked_for(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        partition = bench.partition(leads=False, config=LogConfig(min_insync_replicas=2))
        lead_with_follower(partition, leader_epoch=1, isr=(NODE_ID,))
        append(partition, b"a")
        seen = reader_of(partition)
        assert partition.log.high_watermark == 0
        # Neither a follower nor a producer comes by any more.
        partition.configure(LogConfig(min_insync_replicas=1))
        assert partition.log.high_watermark == 1
        await until(lambda: bool(seen))

    on_bench(tmp_path, story)


def test_settings_can_turn_syncs_on_and_off(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        partition = bench.partition()
        append(partition, b"a")
        partition.configure(LogConfig(flush_messages=1))
        bench.disk.free.clear()
        bench.disk.started.clear()
        append(partition, b"b")
        assert partition.log.high_watermark == 1
        await asyncio.to_thread(bench.disk.started.wait, 10)
        # Turned off while a sync is under way: what comes now is safe at once, and so is all before it.
        partition.configure(LogConfig())
        append(partition, b"c")
        assert partition.log.high_watermark == 3
        bench.disk.free.set()
        await until(lambda: partition.log.recovery_point == 2)
        assert partition.log.high_watermark == 3

    on_bench(tmp_path, story)


def test_a_follower_syncs_before_it_tells_its_leader_what_it_has(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        partition = bench.partition()
        partition.become_follower(NODE_ID + 1, 1)
        told: list[int] = []

        def take(offset: int) -> bool:
            batch = batch_of(b"a", base_offset=offset, leader_epoch=1)
            partition.follower.append(memoryview(batch), partition.leader_epoch, NOW)
            return partition.follower.sync_before_fetch(lambda: told.append(partition.log.recovery_point))

        assert not take(0)
        bench.disk.free.clear()
        bench.disk.started.clear()
        partition.request_sync()
        await asyncio.to_thread(bench.disk.started.wait, 10)
        # The sync that is under way began before the next batch came: it is not the one to wait for.
        partition.configure(LogConfig(flush_messages=1))
        assert take(1)
        assert told == []
        bench.disk.free.set()
        await until(lambda: bool(told))
        assert told == [2]
        assert partition.log.high_watermark == 0, "that is for the leader to say"

    on_bench(tmp_path, story)


def test_a_leader_that_syncs_brings_what_it_found_to_the_disk_first(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        partition = bench.partition()
        append(partition, b"a")
        log = partition.log
        assert log.recovery_point == 0
        log.config = LogConfig(flush_messages=1)
        log.high_watermark = 0
        heir = Partition(NODE_ID, "t", partition.topic_id, 0, log, bench.flusher, partition.traffic)
        bench.disk.free.clear()
        heir.become_leader(1)
        assert log.high_watermark == 0
        with pytest.raises(KafkaError) as refused:
            heir.require_end_offset()
        assert refused.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
        bench.disk.free.set()
        await until(lambda: log.high_watermark == 1)
        heir.require_end_offset()

    on_bench(tmp_path, story)


def test_whoever_waits_is_dismissed_when_the_partition_goes(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        partition = bench.partition(config=LogConfig(flush_messages=1, flush_ms=1000))
        bench.disk.free.clear()
        appended = append(partition, b"a")
        acks: list[AckResult] = []
        fetched: list[bool] = []
        appended.when_committed(FOREVER_MS, acks.append)
        DelayedFetch([partition.delayed_fetches], 1, False, FOREVER_MS, lambda: fetched.append(True))
        partition.retire()
        await asyncio.sleep(0)
        assert acks == [AckResult.FENCED]
        assert fetched == [True]
        assert partition.gone
        assert partition.check_epoch(-1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        bench.disk.free.set()

    on_bench(tmp_path, story)


def test_reads_are_bounded_by_what_is_safe(tmp_path: Path) -> None:
    async def story(bench: Bench) -> None:
        partition = bench.partition()
        size = len(batch_of(b"a"))
        append(partition, b"a")
        partition.configure(LogConfig(flush_messages=1))
        bench.disk.free.clear()
        append(partition, b"b")
        read = partition.read(0, 1 << 20, False, True)
        assert read.slice is not None
        assert read.slice.size == size
        assert partition.read(1, 1 << 20, False, True).slice is None
        with pytest.raises(KafkaError) as refused:
            partition.read(3, 1 << 20, False, True)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        bench.disk.free.set()

    on_bench(tmp_path, story)
