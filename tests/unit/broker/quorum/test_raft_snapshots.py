"""Snapshots: taken when due, the log cut behind them, both found again after a restart."""

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


def test_a_snapshot_is_taken_after_so_many_bytes(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(MetadataNode(tmp_path, SMALL, take_snapshots=True)) as node:
            for i in range(40):
                await node.create(f"topic-{i:03d}")
            await node.committed(node.append(remove_topic("topic-000")))
            await until_snapshots(tmp_path, 1)
        told = MetadataNode(tmp_path, SMALL)
        async with running(told):
            assert told.listener.names == [f"topic-{i:03d}" for i in range(1, 40)]
            assert told.listener.calls[0].startswith("snapshot ")
            # The listener hears of what the snapshot does not hold, and of nothing that it holds.
            offset = int(told.listener.calls[0].split()[1].split("-")[0])
            commits = [line for line in told.listener.calls if line.startswith("commit")]
            assert [int(line.split()[1].split("@")[0]) for line in commits] == list(range(offset, 42))

    asyncio.run(story())
    newest = snapshots(tmp_path)[-1]
    assert stat.S_IMODE(newest.stat().st_mode) == 0o400
    assert not list(metadata_dir(tmp_path).glob("*.part"))


async def test_a_snapshot_is_taken_after_so_long(tmp_path: Path) -> None:
    overrides = {"metadata.log.max.snapshot.interval.ms": "30"}
    async with running(MetadataNode(tmp_path, overrides, take_snapshots=True)) as node:
        await node.create("a")
        await until_snapshots(tmp_path, 1)
        # Nothing new: no other one.
        await asyncio.sleep(0.1)
        assert [path.name for path in snapshots(tmp_path)] == ["00000000000000000002-0000000001.checkpoint"]


async def test_the_log_is_cut_at_snapshots(tmp_path: Path) -> None:
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
    async def story() -> None:
        async with running(MetadataNode(tmp_path)) as node:
            await node.create("a", "b")
            for offset, epoch in ((2, 1), (3, 2), (4, 1)):
                with pytest.raises(RusloError, match="does not end with a committed batch"):
                    await node.driver.write_snapshot(offset, epoch, [topic("a")])
            await node.driver.write_snapshot(*node.driver.applied, node.listener.to_records())
            await node.driver.write_snapshot(*node.driver.applied, [])
            # One that the leader's overtook while it was made is not missed, whatever the log is like now.
            await node.driver.write_snapshot(2, 1, [topic("a")])
            assert len(snapshots(tmp_path)) == 1

    asyncio.run(story())
    checkpoint = read_checkpoint(LocalDisk(str(tmp_path)), str(snapshots(tmp_path)[0]))
    assert len(list(checkpoint.records())) == 2


async def test_the_log_may_be_lost_up_to_the_snapshot(tmp_path: Path) -> None:
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


async def test_a_restart_alone_is_enough_to_cut(tmp_path: Path) -> None:
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


async def test_a_damaged_snapshot_is_set_aside_if_an_older_one_will_do(tmp_path: Path) -> None:
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


async def test_a_log_that_was_cut_needs_its_snapshot(tmp_path: Path) -> None:
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
