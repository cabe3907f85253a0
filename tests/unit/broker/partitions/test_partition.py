"""A partition: roles, epochs, the high watermark with and without syncs, retirement."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ruslo.broker.partitions.ack_wait import AckResult
from ruslo.broker.partitions.isr_expansion import IsrExpansion
from ruslo.broker.partitions.leader import PartitionLeader, ReplicationSettings
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.partitions.purgatory import DelayedFetch
from ruslo.broker.partitions.replication_quota import ReplicationQuota
from ruslo.broker.scheduling.scheduler import Scheduler
from ruslo.config.log_config import LogConfig
from ruslo.machines.replica.leader import Replicas
from ruslo.model.clock import SystemClock
from ruslo.model.errors import ErrorCode, KafkaError
from tests.support.brokers.live_node import NOW, batch_of, until
from tests.unit.broker.partitions.bench import NODE_ID, append, on_bench

FOREVER_MS = 2**31 - 1


class AllAlive:
    def eligible_epoch(self, broker_id: int) -> int | None:
        return 1


def lead_with_follower(
    partition: Partition, leader_epoch: int, isr: tuple[int, ...] = (NODE_ID, NODE_ID + 1)
) -> PartitionLeader:
    """Lead a partition that another broker replicates."""
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


async def test_only_a_leader_appends(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        partition = bench.partition(leads=False)
        with pytest.raises(KafkaError) as caught:
            append(partition, b"a")
        assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition.become_leader(5)
        assert append(partition, b"a").base_offset == 0
        assert partition.log.epochs.epoch_at(0) == 5
        partition.become_follower(2, 6)
        assert not partition.is_leader
        with pytest.raises(KafkaError) as caught:
            append(partition, b"b")
        assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_clients_cannot_produce_to_internal_topics(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        with pytest.raises(KafkaError) as caught:
            append(bench.partition("__consumer_offsets"), b"a")
        assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_leader_epochs_of_clients(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        partition = bench.partition()
        partition.become_leader(3)
        assert partition.check_epoch(-1) is ErrorCode.NONE
        assert partition.check_epoch(3) is ErrorCode.NONE
        assert partition.check_epoch(2) is ErrorCode.FENCED_LEADER_EPOCH
        assert partition.check_epoch(4) is ErrorCode.UNKNOWN_LEADER_EPOCH
        partition.become_follower(2, 4)
        assert partition.check_epoch(4) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_sync_commits_nothing_on_a_follower(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        partition = bench.partition()
        append(partition, b"a")
        partition.become_follower(2, 1)
        partition.follower.append(memoryview(batch_of(b"b", base_offset=1)), 1, NOW)
        partition.request_sync()
        await until(lambda: partition.log.recovery_point == 2)
        assert partition.log.high_watermark == 1


async def test_a_lagging_follower_does_not_reset_its_consumers(tmp_path: Path) -> None:
    """KIP-392: OFFSET_OUT_OF_RANGE would make a consumer reset its position."""
    async with on_bench(tmp_path) as bench:
        partition = bench.partition()
        append(partition, b"a")
        for leads, code in (
            (True, ErrorCode.OFFSET_OUT_OF_RANGE),
            (False, ErrorCode.OFFSET_NOT_AVAILABLE),
        ):
            if not leads:
                partition.become_follower(2, 1)
            with pytest.raises(KafkaError) as caught:
                partition.read(5, 1000, False, True)
            assert caught.value.code is code


async def test_bytes_after_the_batch_are_ignored(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        partition = bench.partition()
        batch = batch_of(b"a")
        partition.append(memoryview(batch + b"tail"), NOW)
        assert partition.log.size_bytes == len(batch)


async def test_without_syncs_an_append_is_committed_at_once(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        partition = bench.partition()
        bench.disk.syncs.clear()
        append(partition, b"a", b"b")
        assert partition.log.high_watermark == 2
        await asyncio.sleep(0.01)
        assert bench.disk.syncs == []


async def test_the_high_watermark_follows_the_syncs(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
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


async def test_a_fetch_completes_once_its_records_are_durable(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
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


def delayed_fetch_of(partition: Partition) -> list[int]:
    """A fetch of one byte; the result is the high watermark at which it completes."""
    seen: list[int] = []
    DelayedFetch(
        [partition.delayed_fetches], 1, False, FOREVER_MS, lambda: seen.append(partition.log.high_watermark)
    )
    return seen


async def test_a_fetch_at_a_follower_completes_when_the_leader_reports_the_commit(tmp_path: Path) -> None:
    """KIP-392: the leader reports the new high watermark in its next response, without records."""
    async with on_bench(tmp_path) as bench:
        partition = bench.partition(leads=False)
        partition.become_follower(NODE_ID + 1, 1)
        seen = delayed_fetch_of(partition)
        batch = batch_of(b"a", leader_epoch=1)
        partition.follower.append(memoryview(batch), partition.leader_epoch, NOW)
        partition.follower.on_leader_offsets(0, 0, len(batch))
        await asyncio.sleep(0)
        assert seen == []
        partition.follower.on_leader_offsets(1, 0, 0)
        await until(lambda: bool(seen))
        assert seen == [1]


async def test_a_fetch_at_a_new_leader_completes_with_records_of_the_previous_leader(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        partition = bench.partition(leads=False)
        partition.become_follower(NODE_ID + 1, 1)
        partition.follower.append(memoryview(batch_of(b"a", leader_epoch=1)), 1, NOW)
        leader = lead_with_follower(partition, leader_epoch=2)
        seen = delayed_fetch_of(partition)
        leader.on_follower_fetch(leader.follower(NODE_ID + 1, 1), 1, 0, 1, now_ms=0)
        await until(lambda: bool(seen))
        assert seen == [1]


async def test_a_lower_min_insync_replicas_commits_records(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        partition = bench.partition(leads=False, config=LogConfig(min_insync_replicas=2))
        lead_with_follower(partition, leader_epoch=1, isr=(NODE_ID,))
        append(partition, b"a")
        seen = delayed_fetch_of(partition)
        assert partition.log.high_watermark == 0
        # No further fetch or append triggers it.
        partition.configure(LogConfig(min_insync_replicas=1))
        assert partition.log.high_watermark == 1
        await until(lambda: bool(seen))


async def test_topic_configs_enable_and_disable_syncs(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        partition = bench.partition()
        append(partition, b"a")
        partition.configure(LogConfig(flush_messages=1))
        bench.disk.free.clear()
        bench.disk.started.clear()
        append(partition, b"b")
        assert partition.log.high_watermark == 1
        await asyncio.to_thread(bench.disk.started.wait, 10)
        # Syncs were disabled during a sync: the next append is committed at once, with all records before it.
        partition.configure(LogConfig())
        append(partition, b"c")
        assert partition.log.high_watermark == 3
        bench.disk.free.set()
        await until(lambda: partition.log.recovery_point == 2)
        assert partition.log.high_watermark == 3


async def test_a_follower_syncs_before_its_next_fetch(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        partition = bench.partition()
        partition.become_follower(NODE_ID + 1, 1)
        fetched: list[int] = []

        def receive(offset: int) -> bool:
            batch = batch_of(b"a", base_offset=offset, leader_epoch=1)
            partition.follower.append(memoryview(batch), partition.leader_epoch, NOW)
            return partition.follower.sync_before_fetch(lambda: fetched.append(partition.log.recovery_point))

        assert not receive(0)
        bench.disk.free.clear()
        bench.disk.started.clear()
        partition.request_sync()
        await asyncio.to_thread(bench.disk.started.wait, 10)
        # The running sync began before the next batch: the fetch waits for another one.
        partition.configure(LogConfig(flush_messages=1))
        assert receive(1)
        assert fetched == []
        bench.disk.free.set()
        await until(lambda: bool(fetched))
        assert fetched == [2]
        assert partition.log.high_watermark == 0, "the leader has not reported the high watermark"


async def test_new_leader_syncs_its_existing_log(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        partition = bench.partition()
        append(partition, b"a")
        log = partition.log
        assert log.recovery_point == 0
        log.configure(LogConfig(flush_messages=1))
        log.high_watermark = 0
        successor = Partition(NODE_ID, "t", partition.topic_id, 0, log, bench.flusher, partition.traffic)
        bench.disk.free.clear()
        successor.become_leader(1)
        assert log.high_watermark == 0
        with pytest.raises(KafkaError) as caught:
            successor.require_end_offset()
        assert caught.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
        bench.disk.free.set()
        await until(lambda: log.high_watermark == 1)
        successor.require_end_offset()


async def test_a_retired_partition_completes_all_waits(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        partition = bench.partition(config=LogConfig(flush_messages=1, flush_ms=1000))
        bench.disk.free.clear()
        appended = append(partition, b"a")
        acks: list[AckResult] = []
        fetched: list[bool] = []
        appended.when_committed(FOREVER_MS, acks.append)
        DelayedFetch([partition.delayed_fetches], 1, False, FOREVER_MS, lambda: fetched.append(True))
        partition.retire()
        await asyncio.sleep(0)
        assert acks == [AckResult.NOT_LEADER]
        assert fetched == [True]
        assert partition.gone
        assert partition.check_epoch(-1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        bench.disk.free.set()


async def test_reads_are_bounded_by_the_high_watermark(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
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
        with pytest.raises(KafkaError) as caught:
            partition.read(3, 1 << 20, False, True)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        bench.disk.free.set()
