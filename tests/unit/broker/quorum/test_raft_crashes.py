"""Whatever moment a node dies at: what was committed is there again, in order, and nothing that never was."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from ruslo.broker.quorum import raft
from ruslo.broker.quorum.metadata_batches import data_batch
from ruslo.broker.quorum.peers import Peers
from ruslo.broker.quorum.replica_log import ReplicaLog
from ruslo.machines.raft.rpc import Answer, Ask, BeginEpochAsk, FetchAnswer, FetchAsk, ReplicaKey
from ruslo.machines.raft.voters import Endpoint
from ruslo.model.errors import CorruptLogError, ErrorCode, KafkaError, StorageError
from ruslo.storage.disk import DiskError
from ruslo.testing.sim_disk import SimDisk
from tests.support.brokers.metadata_log import MetadataNode, running, topic, until

LIMITS = {
    "metadata.log.max.record.bytes.between.snapshots": "400",
    "metadata.max.retention.bytes": "1000",
}
OnAnswer: TypeAlias = Callable[[Answer | None], None]
TWO_VOTERS = {"controller.quorum.voters": "1@localhost:9093,2@localhost:9094"}
NAMES = [f"topic-{number:02d}" for number in range(10)]


def metadata_dir(directory: Path) -> Path:
    return directory / "__cluster_metadata-0"


def newest_segment(directory: Path) -> Path:
    return sorted(metadata_dir(directory).glob("*.log"))[-1]


class Life:
    """Two runs of a node that creates topics one after another, on a disk that may die."""

    def __init__(self, directory: Path, disk: SimDisk) -> None:
        self.directory = directory
        self.disk = disk
        self.appended: list[str] = []
        self.acked: list[str] = []

    async def live(self) -> None:
        half = len(NAMES) // 2
        for names in (NAMES[:half], NAMES[half:]):
            await self._run(names)

    async def _run(self, names: list[str]) -> None:
        node = MetadataNode(self.directory, LIMITS, disk=self.disk, take_snapshots=True)
        try:
            await node.driver.start()
            for name in names:
                self.appended.append(name)
                offset = node.append(topic(name))
                await self._settled(node, offset)
                if node.failures:
                    break
                self.acked.append(name)
        finally:
            with contextlib.suppress(DiskError):
                await node.driver.stop()
        if node.failures:
            raise node.failures[0]

    @staticmethod
    async def _settled(node: MetadataNode, offset: int) -> None:
        await until(lambda: node.driver.applied.offset > offset or bool(node.failures))

    async def look(self) -> None:
        """Start again, on a disk that works, twice; check what is there."""
        for attempt in range(2):
            disk = SimDisk(str(self.directory))
            async with running(MetadataNode(self.directory, LIMITS, disk=disk)) as node:
                found = node.listener.names
                assert found == self.appended[: len(found)], "a prefix of what was appended, in order"
                assert len(found) >= len(self.acked), "everything that was acknowledged"
                if attempt == 0:
                    await node.create("afterwards")
                    self.appended = [*found, "afterwards"]
                    self.acked = list(self.appended)


def count_changes(directory: Path) -> int:
    disk = SimDisk(str(directory))
    asyncio.run(Life(directory, disk).live())
    return disk.medium.changes


@pytest.mark.parametrize("loses_power", [False, True], ids=["kill", "power"])
def test_death_at_every_change_of_the_disk(tmp_path: Path, loses_power: bool) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    total = count_changes(whole)
    assert total > 70
    for dies_at in range(total):
        directory = tmp_path / str(dies_at)
        directory.mkdir()
        disk = SimDisk(str(directory), dies_at, seed=dies_at)
        life = Life(directory, disk)
        with contextlib.suppress(StorageError, KafkaError):
            asyncio.run(life.live())
        if loses_power:
            disk.medium.lose_power()
        try:
            asyncio.run(life.look())
        except BaseException as error:
            error.add_note(f"the disk died at change {dies_at}")
            raise
        shutil.rmtree(directory)


async def test_a_copy_taken_at_any_moment_is_a_working_directory(tmp_path: Path) -> None:
    """As kill -9 would leave it: no stop, no sync, whatever the page cache holds."""
    live = tmp_path / "live"
    live.mkdir()
    # No snapshots: their thread would go on while the directory is copied.
    async with running(MetadataNode(live, LIMITS)) as node:
        for number, name in enumerate(NAMES):
            offset = node.append(topic(name))
            if number % 3 == 0:
                await node.committed(offset)
            copy = tmp_path / f"copy-{number}"
            committed = list(node.listener.names)
            shutil.copytree(live, copy)
            async with running(MetadataNode(copy, LIMITS)) as woken:
                assert woken.listener.names[: len(committed)] == committed
                assert woken.listener.names == NAMES[: len(woken.listener.names)]
                assert woken.driver.epoch > node.driver.epoch


async def test_a_tail_torn_at_any_byte_is_cut_off(tmp_path: Path) -> None:
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


async def test_zeros_or_garbage_at_the_end_are_cut_off(tmp_path: Path) -> None:
    async with running(MetadataNode(tmp_path)) as node:
        await node.create("a")
    for tail in (bytes(4096), b"\x00\x01\x02" * 100):
        with newest_segment(tmp_path).open("ab") as file:
            file.write(tail)
        async with running(MetadataNode(tmp_path)) as node:
            assert node.listener.names == ["a"]


async def test_damage_before_sound_batches_is_not_cut_off(tmp_path: Path) -> None:
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
        CorruptLogError, match=r"Restore this directory from a copy.*cut the file to \d+ bytes"
    ):
        await node.driver.start()
    await node.driver.stop()
    assert path.read_bytes() == content, "nothing is changed before a human has decided"


async def test_a_hole_between_segments_is_damage(tmp_path: Path) -> None:
    # Segments of 600 bytes, by way of the snapshots at which they are closed.
    limits = LIMITS | {"metadata.max.retention.bytes": "-1"}
    async with running(MetadataNode(tmp_path, limits, take_snapshots=True)) as node:
        for name in NAMES:
            await node.create(name)
        await until(lambda: len(list(metadata_dir(tmp_path).glob("*.log"))) > 1)
        await node.create("behind it")
    for path in metadata_dir(tmp_path).glob("*.checkpoint"):
        path.unlink()
    paths = sorted(metadata_dir(tmp_path).glob("*.log"))
    assert len(paths) >= 2
    with paths[0].open("r+b") as file:
        file.truncate(paths[0].stat().st_size - 10)
    node = MetadataNode(tmp_path, limits)
    with pytest.raises(CorruptLogError, match="the metadata log is damaged"):
        await node.driver.start()
    await node.driver.stop()


async def test_a_full_disk_refuses_the_append_and_no_more(tmp_path: Path) -> None:
    disk = SimDisk(str(tmp_path))
    async with running(MetadataNode(tmp_path, LIMITS, disk=disk, take_snapshots=True)) as node:
        await node.create("a")
        end_offset = node.driver.end_offset
        disk.medium.full = True
        with pytest.raises(KafkaError, match="no space left") as refused:
            node.append(topic("b"))
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert node.driver.end_offset == end_offset
        disk.medium.full = False
        for name in NAMES:
            await node.create(name)
        assert node.failures == []
    async with running(MetadataNode(tmp_path, LIMITS)) as again:
        assert again.listener.names == ["a", *NAMES]


async def test_a_follower_that_cannot_append_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: asyncio.Queue[tuple[Ask, OnAnswer]] = asyncio.Queue()

    def ask(peers: Peers, node_id: int, at: Endpoint, ask: Ask, on_answer: OnAnswer) -> None:
        asked.put_nowait((ask, on_answer))

    monkeypatch.setattr(Peers, "ask", ask)
    monkeypatch.setattr(raft, "_TAKE_PAUSE_S", 0)
    first, second = (
        bytes(data_batch([topic(name)], base_offset=offset, epoch=1, timestamp_ms=1))
        for offset, name in enumerate("ab")
    )

    def take_half(replica: ReplicaLog, records: bytes, epoch: int) -> None:
        """As it is when the second batch needs a segment of its own."""
        replica.store.log.append_follower(first, epoch, 1)
        raise DiskError(str(tmp_path), "a file", "create", OSError(errno.EMFILE, "too many open files"))

    disk = SimDisk(str(tmp_path))
    async with running(MetadataNode(tmp_path, TWO_VOTERS, disk=disk)) as node:

        async def answer_fetch(from_offset: int, records: bytes) -> None:
            async with asyncio.timeout(60):
                fetch, on_answer = await asked.get()
                while not isinstance(fetch, FetchAsk) or fetch.epoch < 1:
                    fetch, on_answer = await asked.get()
            assert fetch.offset == from_offset
            on_answer(FetchAnswer(epoch=1, leader_id=2, high_watermark=2, records=records))

        node.driver.ask(BeginEpochAsk(1, 2, ReplicaKey(1), ()))
        disk.medium.full = True
        await answer_fetch(0, first + second)
        disk.medium.full = False
        with monkeypatch.context() as patch:
            patch.setattr(ReplicaLog, "take", take_half)
            await answer_fetch(0, first + second)
        await answer_fetch(1, second)
        await answer_fetch(2, b"")
        assert node.listener.names == ["a", "b"]
        assert node.failures == []


async def test_no_snapshot_on_a_full_disk_is_no_failure(tmp_path: Path) -> None:
    disk = SimDisk(str(tmp_path))
    async with running(MetadataNode(tmp_path, LIMITS, disk=disk)) as node:
        for name in NAMES:
            await node.create(name)
        disk.medium.full = True
        node.driver.snapshot_from(node.listener.to_records)
        with pytest.raises(DiskError, match="no space left"):
            await node.driver.write_snapshot(*node.driver.applied, node.listener.to_records())
        disk.medium.full = False
        assert [path.name for path in metadata_dir(tmp_path).glob("*.checkpoint*")] == []
        await node.create("more")
        await until(lambda: len(list(metadata_dir(tmp_path).glob("*.checkpoint"))) == 1)
        assert node.failures == []


async def test_a_lost_quorum_state_is_no_loss_to_a_sole_voter(tmp_path: Path) -> None:
    for epoch in (1, 2):
        async with running(MetadataNode(tmp_path)) as node:
            assert node.driver.epoch == epoch
            await node.create(f"topic-{epoch}")
        (metadata_dir(tmp_path) / "quorum-state").unlink()
    (metadata_dir(tmp_path) / "quorum-state").write_text("{")
    damaged = MetadataNode(tmp_path)
    with pytest.raises(CorruptLogError, match="quorum-state is damaged"):
        await damaged.driver.start()
    await damaged.driver.stop()
