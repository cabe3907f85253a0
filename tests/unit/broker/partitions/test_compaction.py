"""Compaction in a running node, with a real cleaner process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from ruslo.broker.partitions import cleaner_process, cleaner_worker, compaction
from ruslo.broker.partitions.cleaner_process import CleanerProcess
from ruslo.broker.scheduling.scheduler import Steps, for_each
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ruslo.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from ruslo.storage.cleaner.cleanable import Cleanable, CleanerLimits, make_task
from ruslo.storage.cleaner.task import CleanTask
from ruslo.storage.log import Log
from tests.support.brokers.live_node import LiveNode, batch_of, live_node, records_in, until
from tests.support.clients.raw_client import RawClient, connected

EAGER = {"log.cleaner.backoff.ms": "20", "log.retention.check.interval.ms": "1000000"}
COMPACTED = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": "0.01",
    "file_delete_delay_ms": "0",
    "retention_ms": "-1",
}
BROKER_RESOURCE = 4


async def fill(node: LiveNode, client: RawClient, updates: int = 30, topic: str = "t") -> None:
    """Write updates of three keys, all in closed segments."""
    for number in range(updates):
        key = b"key-%d" % (number % 3)
        result = await node.produce(client, batch_of(b"value-%d" % number, key=key), topic)
        assert result.error_code == 0
    log = node.partition(topic).log
    log.roll(log.end_offset, node.node.logs.clock.now_ms())


async def read_all(node: LiveNode, client: RawClient, topic: str = "t") -> list[tuple[int, bytes | None]]:
    found: list[tuple[int, bytes | None]] = []
    offset = 0
    while True:
        fetched = await node.fetch(client, offset, topic)
        records = records_in(fetched.records)
        if not records:
            return found
        found += [(record.offset, record.value) for record in records]
        offset = records[-1].offset + 1


def cleaned_up_to(node: LiveNode, topic: str = "t") -> int | None:
    directory = node.node.logs.directory_of(TopicPartition(topic, 0))
    return None if directory is None else directory.checkpoints.cleaned.get(TopicPartition(topic, 0))


async def test_a_dirty_log_is_compacted_and_appended_to(tmp_path: Path) -> None:
    async with live_node(tmp_path, EAGER) as node, connected(node.bootstrap) as client:
        await node.create("t", 1, **COMPACTED)
        await fill(node, client)
        await until(lambda: cleaned_up_to(node) == 30)
        expected: list[tuple[int, bytes | None]] = [(n, b"value-%d" % n) for n in (27, 28, 29)]
        assert await read_all(node, client) == expected
        await node.produce(client, batch_of(b"next", key=b"key-0"))
        assert await read_all(node, client) == [*expected, (30, b"next")]
        checkpoint = tmp_path / "cleaner-offset-checkpoint"
        await until(lambda: checkpoint.exists() and "t 0 30" in checkpoint.read_text())
        # Recovery must distinguish compacted records from lost ones.
        assert "t 0 30" in (tmp_path / "recovery-point-offset-checkpoint").read_text()
    async with live_node(tmp_path, EAGER) as node, connected(node.bootstrap) as client:
        assert cleaned_up_to(node) == 30
        assert await read_all(node, client) == [*expected, (30, b"next")]


async def test_the_cleaner_is_a_process_that_ends_with_its_broker(tmp_path: Path) -> None:
    async with live_node(tmp_path, EAGER) as node, connected(node.bootstrap) as client:
        await node.create("t", 1, **COMPACTED)
        await fill(node, client)
        await until(lambda: cleaned_up_to(node) == 30)
        (worker,) = node.node.broker.compaction._workers
        assert isinstance(worker._process, CleanerProcess)
        pid = worker._process.pid
        assert pid is not None
        assert "ruslo.storage.cleaner" in command_of(pid)
        assert os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, 0)
    assert command_of(pid) == ""


def command_of(pid: int) -> str:
    """The command line of a process, or an empty string if it has ended."""
    path = Path(f"/proc/{pid}/cmdline")
    return path.read_text() if path.exists() else ""


async def test_a_killed_cleaner_process_is_restarted(tmp_path: Path) -> None:
    async with live_node(tmp_path, EAGER) as node, connected(node.bootstrap) as client:
        await node.create("t", 1, **COMPACTED)
        await fill(node, client)
        await until(lambda: cleaned_up_to(node) == 30)
        process = node.node.broker.compaction._workers[0]._process
        assert isinstance(process, CleanerProcess)
        pid = process.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await fill(node, client)
        await until(lambda: cleaned_up_to(node) == 60)
        assert node.node.broker.compaction.uncleanable == {}


async def test_an_uncleanable_log_does_not_stop_the_compaction_of_others(tmp_path: Path) -> None:
    properties = {**EAGER, "log.cleaner.backoff.ms": "100000"}
    async with live_node(tmp_path, properties) as node, connected(node.bootstrap) as client:
        for topic in ("bad", "good"):
            await node.create(topic, 1, **COMPACTED)
            await fill(node, client, topic=topic)
        path = tmp_path / "bad-0" / f"{0:020d}.log"
        data = bytearray(path.read_bytes())
        data[75] ^= 1
        path.write_bytes(data)
        await alter_broker(node, "log.cleaner.backoff.ms", "20")
        node.node.broker.compaction._workers[0]._wake.set()
        await until(lambda: TopicPartition("bad", 0) in node.node.broker.compaction.uncleanable)
        await until(lambda: cleaned_up_to(node, "good") == 30)
        assert cleaned_up_to(node, "bad") is None
        assert "checksum" in node.node.broker.compaction.uncleanable[TopicPartition("bad", 0)][1]
        assert (await node.produce(client, batch_of(b"on", key=b"k"), "bad")).error_code == 0
        assert not list((tmp_path / "bad-0").glob("*.cleaned"))
        # A topic that is created again has another log.
        await node.delete("bad")
        await node.create("bad", 1, **COMPACTED)
        await fill(node, client, topic="bad")
        await until(lambda: cleaned_up_to(node, "bad") == 30)
        assert node.node.broker.compaction.uncleanable == {}


async def alter_broker(node: LiveNode, name: str, value: str) -> None:
    resource = AlterConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name="", configs=[AlterableConfig(name=name, value=value)]
    )
    async with connected(node.bootstrap) as client:
        request = IncrementalAlterConfigsRequest(resources=[resource])
        (result,) = (await client.call(request, IncrementalAlterConfigsResponse)).responses
    assert result.error_code == 0, result.error_message


async def test_cleaner_settings_are_dynamic(tmp_path: Path) -> None:
    async with live_node(tmp_path, {"log.cleaner.threads": "1"}) as node:
        cleaner = node.node.broker.compaction
        assert cleaner.limits == CleanerLimits(int(134_217_728 * 0.9), 524_288, None)
        await alter_broker(node, "log.cleaner.threads", "2")
        await alter_broker(node, "log.cleaner.dedupe.buffer.size", "4000000")
        await alter_broker(node, "log.cleaner.io.max.bytes.per.second", "1000.0")
        await alter_broker(node, "log.cleaner.backoff.ms", "77")
        assert cleaner.limits == CleanerLimits(1_800_000, 262_144, 500.0)
        assert cleaner.backoff_ms == 77
        assert len(cleaner._workers) == 2
        await alter_broker(node, "log.cleaner.threads", "1")
        assert len(cleaner._workers) == 1


async def test_a_new_cleanup_policy_applies_to_an_existing_log(tmp_path: Path) -> None:
    async with live_node(tmp_path, EAGER) as node, connected(node.bootstrap) as client:
        await node.create("t", retention_ms="-1", file_delete_delay_ms="0")
        await fill(node, client)
        await node.alter("t", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
        node.node.broker.compaction._workers[0]._wake.set()
        await until(lambda: cleaned_up_to(node) == 30)
        assert len(await read_all(node, client)) == 3


async def test_the_compaction_of_a_deleted_topic_is_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[TopicPartition] = []

    def slow(chosen: Cleanable, limits: CleanerLimits, now_ms: int) -> CleanTask:
        begun.append(chosen.log.partition)
        return make_task(chosen, limits._replace(io_bytes_per_second=2000.0), now_ms)

    async with live_node(tmp_path, EAGER) as node, connected(node.bootstrap) as client:
        await node.create("t", 1, **COMPACTED)
        monkeypatch.setattr(cleaner_worker, "make_task", slow)
        await fill(node, client, 60)
        await until(lambda: bool(begun))
        await node.delete("t")
        await until(lambda: not node.node.broker.compaction._busy)
        monkeypatch.setattr(cleaner_worker, "make_task", make_task)
        await node.create("t", 1, **COMPACTED)
        await fill(node, client)
        await until(lambda: cleaned_up_to(node) == 30)
        assert all(directory.online for directory in node.node.logs.directories)


async def test_log_truncated_during_the_selection_is_not_selected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = {**EAGER, "log.cleaner.backoff.ms": "100000"}
    async with live_node(tmp_path, properties) as node, connected(node.bootstrap) as client:
        await node.create("t", 1, **COMPACTED)
        await fill(node, client)
        log = node.partition("t").log
        log.flush(node.node.logs.clock.now_ms())

        def then_truncate(logs: Iterable[Log], check: Callable[[Log], object]) -> Steps[None]:
            yield from for_each(logs, check)
            log.truncate_to(10)

        monkeypatch.setattr(compaction, "for_each", then_truncate)
        assert await node.node.broker.compaction.choose() is None


async def test_retention_during_a_compaction_only_abandons_that_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cleaner finds that files were deleted, which is not a disk failure."""

    def then_retention(chosen: Cleanable, limits: CleanerLimits, now_ms: int) -> CleanTask:
        task = make_task(chosen, limits, now_ms)
        monkeypatch.setattr(cleaner_worker, "make_task", make_task)
        chosen.log.advance_start_offset(30)
        assert chosen.log.delete_old_segments(now_ms) == 1
        return task

    properties = {**EAGER, "log.cleaner.backoff.ms": "100000"}
    async with live_node(tmp_path, properties) as node, connected(node.bootstrap) as client:
        await node.create("t", 1, **COMPACTED | {"cleanup_policy": "compact,delete"})
        await fill(node, client)
        await fill(node, client)
        monkeypatch.setattr(cleaner_worker, "make_task", then_retention)
        await alter_broker(node, "log.cleaner.backoff.ms", "20")
        node.node.broker.compaction._workers[0]._wake.set()
        await until(lambda: cleaned_up_to(node) == 60)
        assert all(directory.online for directory in node.node.logs.directories)
        log = node.partition("t").log
        assert (log.start_offset, log.segments[0].base_offset) == (30, 30)


async def test_full_disk_only_fails_the_current_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file size limit fails the cleaner as a full disk does."""
    monkeypatch.setattr(
        cleaner_process,
        "COMMAND",
        (
            "-c",
            "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200)); "
            "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
            "sys.argv[0] = 'cleaner'; runpy.run_module('ruslo.storage.cleaner', run_name='__main__')",
        ),
    )
    async with live_node(tmp_path, EAGER) as node, connected(node.bootstrap) as client:
        await node.create("t", 1, **COMPACTED)
        await fill(node, client, 60)
        await until(lambda: bool(node.node.broker.partitions._disk_full_reported_ms))
        assert len(await read_all(node, client)) == 60
        assert all(directory.online for directory in node.node.logs.directories)
        monkeypatch.undo()
        node.node.broker.compaction._workers[0]._process.kill()
        await until(lambda: cleaned_up_to(node) == 60)
        assert len(await read_all(node, client)) == 3


async def test_a_starving_cleaner_process_is_restarted_with_a_higher_priority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        cleaner_process,
        "COMMAND",
        (
            "-c",
            "import runpy, sys; from ruslo.storage.cleaner.cpu_priority import CpuPriority, Starving\n"
            "def starve(priority): raise Starving\n"
            "if sys.argv[2] == 'idle': CpuPriority.adjust = starve\n"
            "sys.argv[0] = 'cleaner'; runpy.run_module('ruslo.storage.cleaner', run_name='__main__')",
        ),
    )
    async with live_node(tmp_path, EAGER) as node, connected(node.bootstrap) as client:
        await node.create("t", 1, **COMPACTED)
        await fill(node, client)
        await until(lambda: cleaned_up_to(node) == 30)
        assert not node.node.broker.compaction.uncleanable
