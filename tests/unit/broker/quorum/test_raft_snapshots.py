"""Snapshots are written when due, truncate the log before them, and are loaded after a restart."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from ruslo.broker.quorum.checkpoint_file import read_checkpoint
from ruslo.model.errors import CorruptLogError, RusloError
from ruslo.protocol.messages.begin_transaction_record import BeginTransactionRecord
from ruslo.protocol.messages.end_transaction_record import EndTransactionRecord
from ruslo.storage.local_disk import LocalDisk
from tests.support.brokers.metadata_log import MetadataNode, remove_topic, running, topic, until

SMALL = {"metadata.log.max.record.bytes.between.snapshots": "2000"}


def metadata_dir(directory: Path) -> Path:
    return directory / "__cluster_metadata-0"


def snapshots(directory: Path) -> list[Path]:
    return sorted(metadata_dir(directory).glob("*.checkpoint"))


def segments(directory: Path) -> list[Path]:
    return sorted(metadata_dir(directory).glob("*.log"))


async def until_snapshots(directory: Path, count: int) -> None:
    await until(lambda: len(snapshots(directory)) >= count)


def test_snapshot_is_due_after_max_bytes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(MetadataNode(tmp_path, SMALL, take_snapshots=True)) as node:
            for i in range(40):
                await node.create(f"topic-{i:03d}")
            await node.committed(node.append(remove_topic("topic-000")))
            await until_snapshots(tmp_path, 1)
        result = MetadataNode(tmp_path, SMALL)
        async with running(result):
            assert result.listener.names == [f"topic-{i:03d}" for i in range(1, 40)]
            assert result.listener.calls[0].startswith("snapshot ")
            # The listener gets only the records that the snapshot does not contain.
            offset = int(result.listener.calls[0].split()[1].split("-")[0])
            commits = [line for line in result.listener.calls if line.startswith("commit")]
            assert [int(line.split()[1].split("@")[0]) for line in commits] == list(range(offset, 42))

    asyncio.run(scenario())
    newest = snapshots(tmp_path)[-1]
    assert stat.S_IMODE(newest.stat().st_mode) == 0o400
    assert not list(metadata_dir(tmp_path).glob("*.part"))


async def test_snapshot_is_due_after_the_interval(tmp_path: Path) -> None:
    overrides = {"metadata.log.max.snapshot.interval.ms": "30"}
    async with running(MetadataNode(tmp_path, overrides, take_snapshots=True)) as node:
        await node.create("a")
        await until_snapshots(tmp_path, 1)
        # No new records: no new snapshot.
        await asyncio.sleep(0.1)
        assert [path.name for path in snapshots(tmp_path)] == ["00000000000000000002-0000000001.checkpoint"]


async def test_log_is_truncated_at_snapshots(tmp_path: Path) -> None:
    limits = SMALL | {"metadata.max.retention.bytes": "6000"}
    async with running(MetadataNode(tmp_path, limits, take_snapshots=True)) as node:
        for i in range(200):
            await node.create(f"topic-{i:03d}")
            await node.committed(node.append(remove_topic(f"topic-{i:03d}")))
        await node.create("last")
        assert node.driver.start_offset > 0
    assert len(segments(tmp_path)) < 6
    assert int(segments(tmp_path)[0].stem) > 0
    assert not list(metadata_dir(tmp_path).glob("*.deleted"))
    oldest = int(snapshots(tmp_path)[0].name[:20])
    assert oldest >= int(segments(tmp_path)[0].stem)
    for _ in range(2):
        async with running(MetadataNode(tmp_path, limits, take_snapshots=True)) as again:
            assert again.listener.names == ["last"]


async def test_no_snapshot_inside_a_transaction(tmp_path: Path) -> None:
    async with running(MetadataNode(tmp_path, SMALL, take_snapshots=True)) as node:
        await node.committed(node.append((BeginTransactionRecord(), 0)))
        for i in range(60):
            await node.committed(node.append(topic(f"topic-{i:03d}")))
        assert snapshots(tmp_path) == []
        await node.committed(node.append((EndTransactionRecord(), 0)))
        await until_snapshots(tmp_path, 1)
    checkpoint = read_checkpoint(LocalDisk(str(tmp_path)), str(snapshots(tmp_path)[0]))
    assert len(list(checkpoint.records())) == 60


def test_a_snapshot_must_end_with_a_committed_batch(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(MetadataNode(tmp_path)) as node:
            await node.create("a", "b")
            for offset, epoch in ((2, 1), (3, 2), (4, 1)):
                with pytest.raises(RusloError, match="does not end with a committed batch"):
                    await node.driver.write_snapshot(offset, epoch, [topic("a")])
            await node.driver.write_snapshot(*node.driver.applied, node.listener.to_records())
            await node.driver.write_snapshot(*node.driver.applied, [])
            # A snapshot that the leader's snapshot overtook is dropped, whatever the log contains now.
            await node.driver.write_snapshot(2, 1, [topic("a")])
            assert len(snapshots(tmp_path)) == 1

    asyncio.run(scenario())
    checkpoint = read_checkpoint(LocalDisk(str(tmp_path)), str(snapshots(tmp_path)[0]))
    assert len(list(checkpoint.records())) == 2


async def test_log_before_the_snapshot_may_be_lost(tmp_path: Path) -> None:
    async with running(MetadataNode(tmp_path)) as node:
        await node.create("a")
        await node.driver.write_snapshot(*node.driver.applied, node.listener.to_records())
    for path in segments(tmp_path):
        path.unlink()
    async with running(MetadataNode(tmp_path)) as again:
        assert again.listener.names == ["a"]
        assert again.driver.epoch == 2
        assert again.driver.start_offset == 2
        await again.create("b")
    async with running(MetadataNode(tmp_path)) as third:
        assert third.listener.names == ["a", "b"]


async def test_restart_truncates_the_log(tmp_path: Path) -> None:
    limits = {"metadata.log.max.record.bytes.between.snapshots": "1", "metadata.max.retention.bytes": "1"}
    async with running(MetadataNode(tmp_path, limits)) as node:
        await node.create("a")
        await node.driver.write_snapshot(*node.driver.applied, node.listener.to_records())
    async with running(MetadataNode(tmp_path, limits)) as again:
        await again.driver.write_snapshot(*again.driver.applied, again.listener.to_records())
        assert again.driver.start_offset == again.driver.end_offset == 3
        assert [int(path.stem) for path in segments(tmp_path)] == [3]
    async with running(MetadataNode(tmp_path, limits)) as third:
        assert third.listener.names == ["a"]


async def test_damaged_snapshot_is_set_aside_if_an_older_one_suffices(tmp_path: Path) -> None:
    async with running(MetadataNode(tmp_path)) as node:
        for name in ("a", "b"):
            await node.create(name)
            await node.driver.write_snapshot(*node.driver.applied, node.listener.to_records())
        await node.create("c")
    damage(snapshots(tmp_path)[1])
    async with running(MetadataNode(tmp_path)) as again:
        assert again.listener.names == ["a", "b", "c"]
    assert len(snapshots(tmp_path)) == 1
    assert len(list(metadata_dir(tmp_path).glob("*.damaged"))) == 1
    damage(snapshots(tmp_path)[0])
    async with running(MetadataNode(tmp_path)) as from_the_log:
        assert from_the_log.listener.names == ["a", "b", "c"]


async def test_truncated_log_needs_its_snapshot(tmp_path: Path) -> None:
    limits = SMALL | {"metadata.max.retention.bytes": "3000"}
    async with running(MetadataNode(tmp_path, limits, take_snapshots=True)) as node:
        for i in range(100):
            await node.create(f"topic-{i:03d}")
        assert node.driver.start_offset > 0
    for path in snapshots(tmp_path):
        damage(path)
    node = MetadataNode(tmp_path, limits)
    with pytest.raises(CorruptLogError, match="metadata in between is missing"):
        await node.start()
    await node.driver.stop()


def damage(path: Path) -> None:
    path.chmod(0o600)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
