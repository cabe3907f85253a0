"""The local replica of the metadata log: its own snapshots and those of the leader."""

from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path

import pytest

from ruslo.broker.quorum.metadata_batches import VersionedRecord
from ruslo.broker.quorum.replica_log import ReplicaLog, open_replica
from ruslo.machines.raft.effects import WriteSnapshotChunk
from ruslo.machines.raft.rpc import SnapshotResponse
from ruslo.machines.raft.snapshots import SnapshotId
from ruslo.machines.raft.voters import Voter, VoterSet
from ruslo.model.clock import SystemClock
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import random_uuid
from ruslo.protocol.messages.kraft_version_record import KRaftVersionRecord
from ruslo.storage.disk import DiskError
from ruslo.storage.local_disk import LocalDisk
from tests.support.brokers.metadata_log import broker_config, topic

OWN, LEADERS = SnapshotId(1, 1), SnapshotId(2, 1)


def opened(directory: Path) -> ReplicaLog:
    return open_replica(broker_config(directory), LocalDisk(str(directory)), SystemClock())


def replica_with(directory: Path, *records: VersionedRecord, epoch: int = 1) -> ReplicaLog:
    directory.mkdir()
    replica = opened(directory)
    for record in records:
        replica.append(epoch, [record])
    return replica


async def snapshot(replica: ReplicaLog, id: SnapshotId, *records: VersionedRecord) -> bool:
    return await replica.write_snapshot(
        id, list(records), high_watermark=id.offset, max_retention_bytes=-1, max_retention_ms=-1
    )


async def test_leaders_snapshot_supersedes_an_own_one_in_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the node, once it leads, would serve a snapshot that its log does not continue."""
    a, b = topic("a"), topic("b")
    leader = replica_with(tmp_path / "leader", a, b)
    assert await snapshot(leader, LEADERS, a, b)
    _, chunk = leader.store.snapshots.chunk(LEADERS, 0, 1 << 20)
    follower = replica_with(tmp_path / "follower", a)
    snapshots = follower.store.snapshots
    begun, go_on = threading.Event(), threading.Event()
    write = snapshots.write

    def slowly(id: SnapshotId, **content: object) -> int:
        begun.set()
        assert go_on.wait(20)
        return write(id, **content)  # type: ignore[arg-type]

    monkeypatch.setattr(snapshots, "write", slowly)
    own = asyncio.ensure_future(snapshot(follower, OWN, a))
    assert await asyncio.to_thread(begun.wait, 20)
    assert follower.add_chunk(WriteSnapshotChunk(LEADERS, 0, chunk, True)) is not None
    assert follower.store.log.start_offset == LEADERS.offset
    go_on.set()
    assert not await own
    assert snapshots.ids() == [LEADERS]
    for replica in (leader, follower):
        replica.close(cleanly=True)


async def test_crash_before_the_leaders_snapshot_replaced_a_longer_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log after the snapshot was written in an earlier epoch and never committed."""
    a, b = topic("a"), topic("b")
    id = SnapshotId(2, 2)
    leader = replica_with(tmp_path / "leader", a, b, epoch=2)
    assert await snapshot(leader, id, a, b)
    _, chunk = leader.store.snapshots.chunk(id, 0, 1 << 20)
    follower = replica_with(tmp_path / "follower", topic("x"), topic("y"))
    voters = VoterSet((Voter(1, random_uuid()),))
    follower.append_control(1, [KRaftVersionRecord(kraft_version=1), voters.to_record()])
    monkeypatch.setattr(follower.store, "restart_at", crash)
    with pytest.raises(RuntimeError):
        follower.add_chunk(WriteSnapshotChunk(id, 0, chunk, True))
    follower.close(cleanly=False)
    again = opened(tmp_path / "follower")
    assert (again.store.log.start_offset, again.store.end_offset) == (2, 2)
    assert (again.view.end_offset, again.view.last_epoch) == (2, 2)
    assert (again.view.kraft_version, again.view.voters) == (0, None)
    again.close(cleanly=True)
    leader.close(cleanly=True)


async def test_a_partial_download_is_deleted_when_the_leader_has_a_newer_snapshot(tmp_path: Path) -> None:
    a, b = topic("a"), topic("b")
    leader = replica_with(tmp_path / "leader", a, b)
    assert await snapshot(leader, LEADERS, a, b)
    _, chunk = leader.store.snapshots.chunk(LEADERS, 0, 1 << 20)
    follower = replica_with(tmp_path / "follower")
    assert follower.add_chunk(WriteSnapshotChunk(OWN, 0, b"its beginning", False)) is None
    assert follower.add_chunk(WriteSnapshotChunk(LEADERS, 0, chunk, True)) is not None
    assert not list((tmp_path / "follower").rglob("*.part"))
    for replica in (leader, follower):
        replica.close(cleanly=True)


async def test_without_file_descriptors_a_follower_gets_a_retriable_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader keeps its leadership."""

    def fail_to_open(disk: LocalDisk, path: str, *, create: bool = False) -> None:
        raise DiskError(disk.directory, path, "open", OSError(errno.EMFILE, "too many open files"))

    a = topic("a")
    leader = replica_with(tmp_path / "leader", a)
    assert await snapshot(leader, OWN, a)
    requested = SnapshotResponse(id=OWN)
    with monkeypatch.context() as patch:
        patch.setattr(LocalDisk, "open", fail_to_open)
        assert leader.with_bytes(requested).error is ErrorCode.KAFKA_STORAGE_ERROR
    response = leader.with_bytes(requested)
    assert isinstance(response, SnapshotResponse)
    assert response.error is ErrorCode.NONE
    assert len(response.chunk) == response.size
    leader.close(cleanly=True)


def crash(id: SnapshotId) -> None:
    raise RuntimeError("the process ends here")
