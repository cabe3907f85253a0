"""After a crash at any point the node has all committed records in order, and no others."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from ruslo.broker.quorum import machine_loop
from ruslo.broker.quorum.metadata_batches import data_batch
from ruslo.broker.quorum.peers import Peers
from ruslo.broker.quorum.replica_log import ReplicaLog
from ruslo.machines.raft.rpc import (
    BeginEpochRequest,
    RaftFetchRequest,
    RaftFetchResponse,
    RaftRequest,
    RaftResponse,
    ReplicaKey,
)
from ruslo.machines.raft.voters import Endpoint
from ruslo.model.errors import CorruptLogError, ErrorCode, KafkaError, StorageError
from ruslo.storage.disk import DiskError
from ruslo.testing.sim_disk import SimDisk
from tests.support.brokers.metadata_log import MetadataNode, running, topic, until

LIMITS = {
    "metadata.log.max.record.bytes.between.snapshots": "400",
    "metadata.max.retention.bytes": "1000",
}
OnResponse: TypeAlias = Callable[[RaftResponse | None], None]
TWO_VOTERS = {"controller.quorum.voters": "1@localhost:9093,2@localhost:9094"}
NAMES = [f"topic-{number:02d}" for number in range(10)]


def metadata_dir(directory: Path) -> Path:
    return directory / "__cluster_metadata-0"


def newest_segment(directory: Path) -> Path:
    return sorted(metadata_dir(directory).glob("*.log"))[-1]


class Lifetime:
    """Two runs of a node that creates topics one after another, on a disk that may fail."""

    def __init__(self, directory: Path, disk: SimDisk) -> None:
        self.directory = directory
        self.disk = disk
        self.appended: list[str] = []
        self.acked: list[str] = []

    async def run(self) -> None:
        half = len(NAMES) // 2
        for names in (NAMES[:half], NAMES[half:]):
            await self._run(names)

    async def _run(self, names: list[str]) -> None:
        node = MetadataNode(self.directory, LIMITS, disk=self.disk, take_snapshots=True)
        try:
            await node.start()
            for name in names:
                self.appended.append(name)
                offset = node.append(topic(name))
                await self._committed_or_failed(node, offset)
                if node.failures:
                    break
                self.acked.append(name)
        finally:
            with contextlib.suppress(DiskError):
                await node.driver.stop()
        if node.failures:
            raise node.failures[0]

    @staticmethod
    async def _committed_or_failed(node: MetadataNode, offset: int) -> None:
        await until(lambda: node.driver.applied.offset > offset or bool(node.failures))

    async def check_after_restart(self) -> None:
        """Restart twice on a working disk and check the topics."""
        for attempt in range(2):
            disk = SimDisk(str(self.directory))
            async with running(MetadataNode(self.directory, LIMITS, disk=disk)) as node:
                found = node.listener.names
                assert found == self.appended[: len(found)], "the topics are a prefix of what was appended"
                assert len(found) >= len(self.acked), "every acknowledged topic exists"
                if attempt == 0:
                    await node.create("afterwards")
                    self.appended = [*found, "afterwards"]
                    self.acked = list(self.appended)


def count_changes(directory: Path) -> int:
    disk = SimDisk(str(directory))
    asyncio.run(Lifetime(directory, disk).run())
    return disk.medium.changes


@pytest.mark.parametrize("loses_power", [False, True], ids=["kill", "power"])
def test_crash_at_every_disk_operation(tmp_path: Path, loses_power: bool) -> None:
    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    total = count_changes(undisturbed)
    assert total > 70
    for dies_at in range(total):
        directory = tmp_path / str(dies_at)
        directory.mkdir()
        disk = SimDisk(str(directory), dies_at, seed=dies_at)
        lifetime = Lifetime(directory, disk)
        with contextlib.suppress(StorageError, KafkaError):
            asyncio.run(lifetime.run())
        if loses_power:
            disk.medium.lose_power()
        try:
            asyncio.run(lifetime.check_after_restart())
        except BaseException as error:
            error.add_note(f"the disk died at change {dies_at}")
            raise
        shutil.rmtree(directory)


async def test_a_copy_taken_at_any_moment_is_a_working_directory(tmp_path: Path) -> None:
    """The copy is what kill -9 leaves: not stopped and not synced."""
    live = tmp_path / "live"
    live.mkdir()
    # Without snapshots, because their thread would keep writing while the directory is copied.
    async with running(MetadataNode(live, LIMITS)) as node:
        for number, name in enumerate(NAMES):
            offset = node.append(topic(name))
            if number % 3 == 0:
                await node.committed(offset)
            copy = tmp_path / f"copy-{number}"
            committed = list(node.listener.names)
            shutil.copytree(live, copy)
            async with running(MetadataNode(copy, LIMITS)) as restarted:
                assert restarted.listener.names[: len(committed)] == committed
                assert restarted.listener.names == NAMES[: len(restarted.listener.names)]
                assert restarted.driver.epoch > node.driver.epoch


async def test_a_tail_torn_at_any_byte_is_truncated(tmp_path: Path) -> None:
    live = tmp_path / "live"
    live.mkdir()
    async with running(MetadataNode(live)) as node:
        await node.create("a")
        before = newest_segment(live).stat().st_size
        await node.create("b")
        after = newest_segment(live).stat().st_size
    for size in range(before, after + 1, 5):
        torn = tmp_path / f"torn-{size}"
        shutil.copytree(live, torn)
        with newest_segment(torn).open("r+b") as file:
            file.truncate(size)
        async with running(MetadataNode(torn)) as node:
            assert node.listener.names == (["a", "b"] if size == after else ["a"])
            await node.create("c")
        async with running(MetadataNode(torn)) as node:
            assert node.listener.names[-1] == "c"


async def test_zeros_or_garbage_at_the_end_are_truncated(tmp_path: Path) -> None:
    async with running(MetadataNode(tmp_path)) as node:
        await node.create("a")
    for tail in (bytes(4096), b"\x00\x01\x02" * 100):
        with newest_segment(tmp_path).open("ab") as file:
            file.write(tail)
        async with running(MetadataNode(tmp_path)) as node:
            assert node.listener.names == ["a"]


async def test_damage_before_valid_batches_is_not_truncated(tmp_path: Path) -> None:
    async with running(MetadataNode(tmp_path)) as node:
        await node.create("a")
        end_of_a = newest_segment(tmp_path).stat().st_size
        await node.create("b")
    path = newest_segment(tmp_path)
    content = bytearray(path.read_bytes())
    content[end_of_a - 3] ^= 0x01
    path.write_bytes(content)
    node = MetadataNode(tmp_path)
    with pytest.raises(
        CorruptLogError, match=r"Restore this directory from a backup.*truncate the file to \d+ bytes"
    ):
        await node.start()
    await node.driver.stop()
    assert path.read_bytes() == content, "the file is unchanged until the operator decides"


async def test_a_hole_between_segments_is_damage(tmp_path: Path) -> None:
    # Snapshots roll the segments at some 600 bytes.
    limits = LIMITS | {"metadata.max.retention.bytes": "-1"}
    async with running(MetadataNode(tmp_path, limits, take_snapshots=True)) as node:
        for name in NAMES:
            await node.create(name)
        await until(lambda: len(list(metadata_dir(tmp_path).glob("*.log"))) > 1)
        await node.create("after it")
    for path in metadata_dir(tmp_path).glob("*.checkpoint"):
        path.unlink()
    paths = sorted(metadata_dir(tmp_path).glob("*.log"))
    assert len(paths) >= 2
    with paths[0].open("r+b") as file:
        file.truncate(paths[0].stat().st_size - 10)
    node = MetadataNode(tmp_path, limits)
    with pytest.raises(CorruptLogError, match="The metadata log is damaged"):
        await node.start()
    await node.driver.stop()


async def test_full_disk_only_fails_the_append(tmp_path: Path) -> None:
    disk = SimDisk(str(tmp_path))
    async with running(MetadataNode(tmp_path, LIMITS, disk=disk, take_snapshots=True)) as node:
        await node.create("a")
        end_offset = node.driver.end_offset
        disk.medium.full = True
        with pytest.raises(KafkaError, match="no space left") as rejected:
            node.append(topic("b"))
        assert rejected.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert node.driver.end_offset == end_offset
        disk.medium.full = False
        for name in NAMES:
            await node.create(name)
        assert node.failures == []
    async with running(MetadataNode(tmp_path, LIMITS)) as again:
        assert again.listener.names == ["a", *NAMES]


async def test_a_follower_that_cannot_append_fetches_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: asyncio.Queue[tuple[RaftRequest, OnResponse]] = asyncio.Queue()

    def send(peers: Peers, node_id: int, at: Endpoint, request: RaftRequest, on_response: OnResponse) -> None:
        sent.put_nowait((request, on_response))

    monkeypatch.setattr(Peers, "send", send)
    monkeypatch.setattr(machine_loop, "_REFETCH_BACKOFF_S", 0)
    first, second = (
        bytes(data_batch([topic(name)], base_offset=offset, epoch=1, timestamp_ms=1))
        for offset, name in enumerate("ab")
    )

    def append_half(replica: ReplicaLog, records: bytes, epoch: int) -> None:
        """The append fails as if the second batch needed a new segment."""
        replica.store.log.append_follower(first, epoch, 1)
        raise DiskError(str(tmp_path), "a file", "create", OSError(errno.EMFILE, "too many open files"))

    disk = SimDisk(str(tmp_path))
    async with running(MetadataNode(tmp_path, TWO_VOTERS, disk=disk)) as node:

        async def respond_to_fetch(from_offset: int, records: bytes) -> None:
            async with asyncio.timeout(60):
                fetch, on_response = await sent.get()
                while not isinstance(fetch, RaftFetchRequest) or fetch.epoch < 1:
                    fetch, on_response = await sent.get()
            assert fetch.offset == from_offset
            on_response(RaftFetchResponse(epoch=1, leader_id=2, high_watermark=2, records=records))

        node.driver.handle_request(BeginEpochRequest(1, 2, ReplicaKey(1), ()))
        disk.medium.full = True
        await respond_to_fetch(0, first + second)
        disk.medium.full = False
        with monkeypatch.context() as patch:
            patch.setattr(ReplicaLog, "append_fetched", append_half)
            await respond_to_fetch(0, first + second)
        await respond_to_fetch(1, second)
        await respond_to_fetch(2, b"")
        assert node.listener.names == ["a", "b"]
        assert node.failures == []


async def test_a_snapshot_that_fails_on_a_full_disk_does_not_stop_the_node(tmp_path: Path) -> None:
    disk = SimDisk(str(tmp_path))
    limits = {"metadata.log.max.record.bytes.between.snapshots": "10000"}
    async with running(MetadataNode(tmp_path, limits, disk=disk, take_snapshots=True)) as node:
        for name in NAMES:
            await node.create(name)
        disk.medium.full = True
        with pytest.raises(DiskError, match="no space left"):
            await node.driver.write_snapshot(*node.driver.applied, node.listener.to_records())
        disk.medium.full = False
        assert [path.name for path in metadata_dir(tmp_path).glob("*.checkpoint*")] == []
        await node.create("x" * 10_000)
        await until(lambda: len(list(metadata_dir(tmp_path).glob("*.checkpoint"))) == 1)
        assert node.failures == []


async def test_sole_voter_does_not_need_its_quorum_state(tmp_path: Path) -> None:
    for epoch in (1, 2):
        async with running(MetadataNode(tmp_path)) as node:
            assert node.driver.epoch == epoch
            await node.create(f"topic-{epoch}")
        (metadata_dir(tmp_path) / "quorum-state").unlink()
    (metadata_dir(tmp_path) / "quorum-state").write_text("{")
    damaged = MetadataNode(tmp_path)
    with pytest.raises(CorruptLogError, match="quorum-state is damaged"):
        await damaged.start()
    await damaged.driver.stop()
