"""Periodic tasks: retention, checkpoints, deletion, background syncs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from ruslo.broker.partitions import periodic_tasks
from ruslo.broker.scheduling.scheduler import Scheduler
from ruslo.model.clock import SystemClock
from tests.support.brokers.live_node import (
    NOW,
    HeldDisk,
    batch_of,
    held_disks,
    live_node,
    run,
    until,
)
from tests.support.clients.raw_client import connected

__all__ = ["held_disks"]


async def test_retention_and_deletion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periodic_tasks, "DELETION_INTERVAL_MS", 10)
    properties = {"log.retention.check.interval.ms": "20", "log.segment.delete.delay.ms": "0"}
    async with live_node(tmp_path, properties) as node, connected(node.bootstrap) as client:
        await node.create("t", retention_ms="-1")
        await node.produce(client, batch_of(b"old"))
        await node.produce(client, batch_of(b"old too"))
        await asyncio.sleep(0.06)
        assert node.partition().log.start_offset == 0
        await node.alter("t", retention_ms="1000", file_delete_delay_ms="0")
        await until(lambda: node.partition().log.start_offset == 2)
        await until(lambda: not (tmp_path / "t-0" / f"{0:020d}.log.deleted").exists())
        assert f"{2:020d}.log" in os.listdir(tmp_path / "t-0")
        await node.delete("t")
        await until(lambda: not any(name.startswith("t-0") for name in os.listdir(tmp_path)))


async def test_checkpoints(tmp_path: Path) -> None:
    properties = {
        "replica.high.watermark.checkpoint.interval.ms": "10",
        "log.flush.offset.checkpoint.interval.ms": "10",
        "log.flush.start.offset.checkpoint.interval.ms": "10",
    }
    async with live_node(tmp_path, properties) as node, connected(node.bootstrap) as client:
        await node.create("t", flush_messages="1")
        await node.produce(client, batch_of(b"a", b"b", b"c"))
        node.partition().log.delete_records_before(2)

        def has(name: str, line: str) -> bool:
            path = tmp_path / name
            return path.exists() and line in path.read_text().splitlines()

        await until(lambda: has("replication-offset-checkpoint", "t 0 3"))
        await until(lambda: has("recovery-point-offset-checkpoint", "t 0 3"))
        await until(lambda: has("log-start-offset-checkpoint", "t 0 2"))


async def test_closed_segments_are_synced_in_the_background(
    tmp_path: Path, held_disks: dict[str, HeldDisk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic_tasks, "BACKGROUND_SYNC_INTERVAL_MS", 10)
    async with live_node(tmp_path) as node, connected(node.bootstrap) as client:
        await node.create()
        await node.produce(client, batch_of(b"a"))
        log = node.partition().log
        log.roll(log.end_offset, NOW)
        await until(lambda: log.recovery_point == 1 and not log.has_unsynced_files)


def test_a_failing_task_does_not_stop_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def fail_and_repeat() -> None:
        async with live_node(tmp_path) as node:
            runs = {"bad": 0, "good": 0}

            async def failing() -> None:
                runs["bad"] += 1
                raise ZeroDivisionError("a bug")

            async def succeeding() -> None:
                runs["good"] += 1

            scheduler = Scheduler(SystemClock())
            tasks = periodic_tasks.PeriodicTasks(
                node.node.config, node.node.logs, node.node.broker.partitions, scheduler
            )
            tasks._periodic = (
                periodic_tasks.PeriodicTask("bad", 1, failing),
                periodic_tasks.PeriodicTask("good", 1, succeeding, 0),
            )
            tasks.start()
            await until(lambda: min(runs.values()) >= 3)
            await tasks.stop()
            done = dict(runs)
            await asyncio.sleep(0.02)
            assert runs == done, "no task runs after the stop"

    run(fail_and_repeat())
    assert "bad failed" in caplog.text
