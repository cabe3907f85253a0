from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ruslo.config.log_config import LogConfig
from ruslo.model.buffers import ReadBuffer
from ruslo.model.ids import random_uuid
from ruslo.model.topics import TopicPartition
from ruslo.storage.disk import DiskError
from ruslo.storage.local_disk import LocalDisk
from ruslo.storage.log_creation import create_log
from ruslo.storage.log_sync import run_together
from tests.unit.storage.workbench import NOW, Workbench, batch


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path, LogConfig(segment_bytes=2 * len(batch())))


def names(paths: tuple[str, ...]) -> set[str]:
    return {Path(path).name for path in paths}


def test_the_first_flush_syncs_the_files_of_the_creation(bench: Workbench, tmp_path: Path) -> None:
    bench.append(batch())
    targets = bench.log.sync_targets()
    assert [Path(file.path).name for file in targets.files] == ["00000000000000000000.log"]
    assert names(targets.paths) == {"partition.metadata"}
    assert set(targets.directories) == {bench.path, str(tmp_path)}
    targets.run()
    bench.log.mark_flushed(targets, NOW + 1)
    assert (bench.log.recovery_point, bench.log.flushed_ms) == (1, NOW + 1)
    assert bench.content("leader-epoch-checkpoint") == b"0\n1\n0 0\n"
    assert not bench.log.is_dirty
    assert bench.log.sync_targets().files == ()


def test_a_plain_append_needs_one_sync_only(bench: Workbench) -> None:
    bench.append(batch())
    bench.log.flush(NOW)
    bench.append(batch())
    targets = bench.log.sync_targets()
    assert len(targets.files) == 1
    assert (targets.paths, targets.directories, targets.replacements) == ((), (), ())


def test_after_a_roll_the_sealed_segment_is_among_the_targets(bench: Workbench) -> None:
    bench.log.flush(NOW)
    bench.append_many(3)
    assert bench.log.has_unsynced_files
    targets = bench.log.sync_targets()
    assert names(targets.paths) == {
        "00000000000000000000.log",
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000002.snapshot",
    }
    assert targets.directories == (bench.path,)


def test_changes_during_a_flush_stay_unsynced(bench: Workbench) -> None:
    bench.append_many(3)
    targets = bench.log.sync_targets()
    bench.append_many(3)
    targets.run()
    bench.log.mark_flushed(targets, NOW)
    assert bench.log.recovery_point == 3
    assert bench.log.unflushed == 3
    assert bench.log.has_unsynced_files


def test_a_roll_right_after_the_flushed_batch_keeps_its_indexes_within_recovery(bench: Workbench) -> None:
    bench.append_many(2)
    targets = bench.log.sync_targets()
    bench.append(batch())
    assert len(bench.log.segments) == 2
    targets.run()
    bench.log.mark_flushed(targets, NOW)
    # At 2, recovery would trust the sealed segment, whose index files are not synced.
    assert bench.log.recovery_point == 1
    bench.log.flush(NOW)
    assert bench.log.recovery_point == 3


def test_a_truncation_during_a_flush_invalidates_it(bench: Workbench) -> None:
    bench.append_many(2)
    targets = bench.log.sync_targets()
    bench.log.truncate_to(1)
    targets.run()
    bench.log.mark_flushed(targets, NOW)
    assert bench.log.recovery_point == 0


def test_files_deleted_by_retention_are_ignored(bench: Workbench) -> None:
    bench.append_many(3)
    targets = bench.log.sync_targets()
    bench.disk.remove_tree(bench.path)
    targets.run()


def test_a_failed_sync_is_reported(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(disk: LocalDisk, path: str) -> None:
        raise DiskError(disk.directory, path, "sync", OSError(5, "Input/output error"))

    bench.append_many(3)
    monkeypatch.setattr(LocalDisk, "sync_directory", failing)
    with pytest.raises(DiskError) as failed:
        bench.log.flush(NOW)
    assert failed.value.fatal
    assert bench.log.recovery_point == 0


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC])
def test_a_checkpoint_that_failed_on_a_full_disk_is_retried(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(disk: LocalDisk, path: str, data: ReadBuffer) -> None:
        raise DiskError(disk.directory, path, "write", OSError(number, "try later"))

    bench.log.assign_leader_epoch(3)
    with monkeypatch.context() as patch:
        patch.setattr(LocalDisk, "replace_file", fail)
        with pytest.raises(DiskError) as failed:
            bench.log.flush(NOW)
    assert not failed.value.fatal
    bench.log.flush(NOW)
    assert not bench.log.has_unsynced_files


@pytest.mark.parametrize("count", [3, 40])
def test_many_logs_together(bench: Workbench, count: int) -> None:
    logs = []
    for number in range(count):
        partition = TopicPartition("many", number)
        path = f"{bench.directory}/{partition}"
        log = create_log(bench.disk, path, partition, random_uuid(), LogConfig(), bench.trash, NOW)
        log.assign_leader_epoch(3)
        logs.append(log)
    targets = [log.sync_targets() for log in logs]
    run_together(targets)
    for log, target in zip(logs, targets, strict=True):
        log.mark_flushed(target, NOW)
        assert not log.is_dirty
        assert Path(log.path, "leader-epoch-checkpoint").read_bytes() == b"0\n1\n3 0\n"
        assert not list(Path(log.path).glob("*.tmp"))
