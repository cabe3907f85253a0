"""Group commit: one sync at a time, shared by all waiting partitions; a failed sync is final."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

from ruslo.config.log_config import LogConfig
from tests.support.brokers.live_node import until
from tests.unit.broker.partitions.bench import append, on_bench

SYNCED = LogConfig(flush_messages=1)


async def test_appends_during_a_sync_share_the_next(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        one, other = bench.partition("one", config=SYNCED), bench.partition("other", config=SYNCED)
        bench.disk.free.clear()
        bench.disk.started.clear()
        bench.disk.syncs.clear()
        append(one, b"0")
        await asyncio.to_thread(bench.disk.started.wait, 10)
        for _ in range(10):
            append(one, b"x")
            append(other, b"y")
        bench.disk.free.set()
        await until(lambda: one.log.high_watermark == 11 and other.log.high_watermark == 10)
        names = [path.split("/")[-2] for path in bench.disk.syncs]
        assert names[0] == "one-0"
        assert sorted(names[1:]) == ["one-0", "other-0"]


async def test_no_sync_follows_a_failed_one(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        partition = bench.partition(config=SYNCED)
        bench.disk.failure = OSError(errno.EIO, "Input/output error")
        bench.disk.syncs.clear()
        append(partition, b"a")
        await until(lambda: bool(bench.failures))
        assert partition.log.high_watermark == 0
        bench.disk.failure = None
        partition.request_sync()
        await asyncio.sleep(0.02)
        assert len(bench.failures) == len(bench.disk.syncs) == 1
        assert "Input/output error" in str(bench.failures[0])


async def test_a_retired_partition_is_not_synced(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        retired, remaining = (
            bench.partition("going", config=SYNCED),
            bench.partition("staying", config=SYNCED),
        )
        bench.disk.free.clear()
        bench.disk.started.clear()
        bench.disk.syncs.clear()
        append(retired, b"a")
        await asyncio.to_thread(bench.disk.started.wait, 10)
        append(retired, b"b")
        append(remaining, b"c")
        retired.retire()
        bench.directory.delete(retired.log.partition, 0)
        bench.directory.trash.remove_due()
        bench.disk.free.set()
        await until(lambda: remaining.log.high_watermark == 1)
        assert [path.split("/")[-2] for path in bench.disk.syncs] == ["going-0", "staying-0"]
        assert bench.failures == []


async def test_close_waits_for_the_running_sync(tmp_path: Path) -> None:
    async with on_bench(tmp_path) as bench:
        partition = bench.partition(config=SYNCED)
        bench.disk.free.clear()
        bench.disk.started.clear()
        append(partition, b"a")
        await asyncio.to_thread(bench.disk.started.wait, 10)
        closing = asyncio.create_task(bench.flusher.close())
        await asyncio.sleep(0.01)
        assert not closing.done()
        bench.disk.free.set()
        await closing
        assert partition.log.recovery_point == 1
