from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ruslo.config.log_config import LogConfig
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.model.ids import Uuid, random_uuid
from ruslo.model.topics import TopicPartition
from ruslo.records.batch import HEADER
from ruslo.storage.disk import DiskError
from ruslo.storage.local_disk import LocalDisk
from ruslo.storage.log import Log
from ruslo.storage.log_dir import LogDir
from ruslo.storage.log_manager import LogManager
from ruslo.storage.meta_properties import MetaProperties, write_meta_properties
from ruslo.testing.sim_disk import SimDisk
from tests.unit.storage.test_disk import no_descriptors
from tests.unit.storage.workbench import NOW, ManualClock, Workbench, batch, records_from, run_jobs

CONFIG = LogConfig()


class Broker:
    """A LogManager with some directories that can be stopped, killed and restarted."""

    def __init__(self, *paths: Path) -> None:
        self.paths = [str(path) for path in paths]
        self.clock = ManualClock()
        self.offline: list[tuple[str, list[TopicPartition]]] = []
        self.manager: LogManager
        self.start()

    def start(self) -> LogManager:
        self.manager = LogManager.open(
            self.paths,
            self.clock,
            on_offline=lambda directory, partitions: self.offline.append((directory.path, partitions)),
        )
        self.manager.load(lambda topic: CONFIG)
        return self.manager

    def restart(self, broker_epoch: int = 1) -> LogManager:
        self.manager.stop(broker_epoch)
        return self.start()

    def crash(self) -> LogManager:
        self.manager.abandon()
        return self.start()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path)
    yield made
    made.manager.abandon()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Broker]:
    paths = [tmp_path / "one", tmp_path / "two"]
    for number, path in enumerate(paths):
        path.mkdir()
        meta = MetaProperties("c", 1, bytes([number + 1]) * 16)
        write_meta_properties(LocalDisk(str(path)), meta)
    made = Broker(*paths)
    yield made
    made.manager.abandon()


def fill(log: Log, count: int = 3) -> None:
    for _ in range(count):
        data = batch()
        log.append_leader(data, HEADER.unpack_from(data), 0, NOW)
    log.advance_high_watermark(log.end_offset)


def create(manager: LogManager, topic: str, partition: int = 0, directory_id: Uuid | None = None) -> Log:
    return manager.create(TopicPartition(topic, partition), random_uuid(), CONFIG, directory_id)


class TestRestart:
    def test_clean(self, broker: Broker, tmp_path: Path) -> None:
        log = create(broker.manager, "t")
        topic_id = log.topic_id
        fill(log)
        log.delete_records_before(1)
        manager = broker.restart(broker_epoch=12)
        again = manager.get(TopicPartition("t", 0))
        assert again is not None
        assert (again.start_offset, again.end_offset, again.high_watermark, again.recovery_point) == (
            1,
            3,
            3,
            3,
        )
        assert again.topic_id == topic_id
        assert manager.was_clean
        assert manager.previous_broker_epoch == 12
        assert (tmp_path / "recovery-point-offset-checkpoint").read_bytes() == b"0\n1\nt 0 3\n"
        assert (tmp_path / "log-start-offset-checkpoint").read_bytes() == b"0\n1\nt 0 1\n"
        assert (tmp_path / "replication-offset-checkpoint").read_bytes() == b"0\n1\nt 0 3\n"
        assert not (tmp_path / ".kafka_cleanshutdown").exists()

    def test_unclean(self, broker: Broker) -> None:
        fill(create(broker.manager, "t"))
        run_jobs(broker.manager, broker.manager.high_watermark_jobs())
        manager = broker.crash()
        log = manager.logs[TopicPartition("t", 0)]
        assert [offset for offset, _ in records_from(log)] == [0, 1, 2]
        assert (log.high_watermark, log.recovery_point) == (3, 0)
        assert not manager.was_clean
        assert manager.previous_broker_epoch == -1

    def test_many_logs_are_recovered_in_threads(self, broker: Broker) -> None:
        for partition in range(10):
            fill(create(broker.manager, "t", partition), partition)
        manager = broker.crash()
        assert {name.partition: log.end_offset for name, log in manager.logs.items()} == {
            n: n for n in range(10)
        }
        progress = manager.directories[0].recovery
        assert (progress.logs_total, progress.logs_left) == (10, 0)
        assert (progress.segments_total, progress.segments_left) == (10, 0)

    def test_recovery_counts_only_unsynced_segments(self, broker: Broker) -> None:
        log = create(broker.manager, "t")
        for _ in range(3):
            fill(log)
            log.roll(log.end_offset, NOW)
        log.flush(NOW)
        fill(log)
        run_jobs(broker.manager, broker.manager.recovery_point_jobs())
        progress = broker.crash().directories[0].recovery
        assert (progress.segments_total, progress.segments_left) == (1, 0)
        assert (broker.restart().directories[0].recovery.logs_total) == 0

    def test_the_clean_shutdown_file_and_the_lock(self, broker: Broker, tmp_path: Path) -> None:
        assert (tmp_path / ".lock").exists()
        broker.manager.stop(5)
        assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":5}'
        assert not (tmp_path / ".lock").exists()
        broker.start()

    def test_a_clean_shutdown_needs_all_directories(self, two: Broker) -> None:
        two.manager.stop(9)
        Path(two.paths[1], ".kafka_cleanshutdown").unlink()
        two.start()
        assert not two.manager.was_clean
        assert two.manager.previous_broker_epoch == -1

    def test_a_directory_in_use_releases_the_others(self, tmp_path: Path) -> None:
        (tmp_path / "free").mkdir()
        (tmp_path / "used").mkdir()
        holder = Broker(tmp_path / "used")
        with pytest.raises(StorageError, match="is in use"):
            Broker(tmp_path / "free", tmp_path / "used")
        Broker(tmp_path / "free").manager.abandon()
        holder.manager.abandon()

    def test_idle_partitions_do_not_rewrite_their_files(self, broker: Broker) -> None:
        fill(create(broker.manager, "t"))
        broker.restart()
        path = Path(broker.paths[0], "t-0")
        before = {entry.name: entry.stat().st_mtime_ns for entry in path.iterdir()}
        broker.restart()
        assert {entry.name: entry.stat().st_mtime_ns for entry in path.iterdir()} == before


class TestDirectoryContent:
    def test_foreign_directory_prevents_the_start(self, broker: Broker, tmp_path: Path) -> None:
        broker.manager.stop(1)
        (tmp_path / "lost+found").mkdir()
        with pytest.raises(StorageError, match=r"lost\+found is not a partition directory"):
            broker.start()
        (tmp_path / "lost+found").rmdir()
        broker.manager.abandon()
        broker.start()

    def test_deleted_and_stray_directories(self, broker: Broker, tmp_path: Path) -> None:
        broker.manager.stop(1)
        hex_id = "0123456789abcdef" * 2
        for name in (f"a-0.{hex_id}-delete", f"b-0.{hex_id}-stray", "c-0." + hex_id + "-future"):
            (tmp_path / name).mkdir()
        (tmp_path / "__cluster_metadata-0").mkdir()
        (tmp_path / "remote-log-index-cache").mkdir()
        manager = broker.start()
        assert manager.logs == {}
        broker.clock.ms += 60_000
        run_jobs(manager, manager.trash_jobs())
        left = {entry.name for entry in tmp_path.iterdir() if entry.is_dir()}
        assert left == {
            f"b-0.{hex_id}-stray",
            f"c-0.{hex_id}-future",
            "__cluster_metadata-0",
            "remote-log-index-cache",
        }

    def test_a_partition_in_two_directories(self, two: Broker) -> None:
        two.manager.stop(1)
        for path in two.paths:
            Path(path, "t-0").mkdir()
        with pytest.raises(StorageError, match=r"t-0 exists twice, in .* and "):
            two.start()
        two.manager.abandon()
        Path(two.paths[1], "t-0").rename(Path(two.paths[1], "t-1"))
        two.start()

    def test_the_metadata_log_is_left_to_its_driver(self, broker: Broker) -> None:
        Path(broker.paths[0], "__cluster_metadata-0").mkdir()
        broker.crash()
        assert broker.manager.logs == {}
        assert Path(broker.paths[0], "__cluster_metadata-0").is_dir()


class TestTopics:
    def test_new_logs_go_to_the_directory_with_the_fewest_partitions(self, two: Broker) -> None:
        for partition in range(5):
            create(two.manager, "t", partition)
        assert sorted(len(directory.logs) for directory in two.manager.directories) == [2, 3]

    def test_cordoned_directories_are_used_only_if_all_are_cordoned(self, two: Broker) -> None:
        manager = two.manager
        free, cordoned = manager.directories
        manager.cordon([cordoned.path])
        assert manager.cordoned_directory_ids() == [cordoned.directory_id]
        for partition in range(3):
            create(manager, "t", partition)
        assert (len(free.logs), len(cordoned.logs)) == (3, 0)
        # The controller may have assigned replicas here before it knew of the cordon.
        manager.cordon([free.path, cordoned.path])
        create(manager, "t", 3)
        assert (len(free.logs), len(cordoned.logs)) == (3, 1)
        manager.cordon(())
        assert manager.cordoned_directory_ids() == []

    def test_new_logs_go_to_the_directory_of_the_controller(self, two: Broker) -> None:
        for partition in range(3):
            log = create(two.manager, "t", partition, directory_id=bytes([2]) * 16)
            assert log.directory == two.paths[1]

    def test_deletion_renames_now_and_removes_later(self, broker: Broker, tmp_path: Path) -> None:
        log = create(broker.manager, "t")
        fill(log)
        part = log.read(0, 1000, 3)
        broker.manager.delete(TopicPartition("t", 0))
        assert broker.manager.get(TopicPartition("t", 0)) is None
        (trash,) = [entry.name for entry in tmp_path.iterdir() if entry.is_dir()]
        assert re.fullmatch(r"t-0\.[0-9a-f]{32}-delete", trash)
        # A reader still has the file open.
        assert part.slice is not None
        assert len(part.slice.read()) == log.size_bytes
        broker.clock.ms += 60_000
        run_jobs(broker.manager, broker.manager.trash_jobs())
        assert not (tmp_path / trash).exists()

    def test_a_deletion_is_finished_after_a_restart(self, broker: Broker, tmp_path: Path) -> None:
        create(broker.manager, "t")
        broker.manager.delete(TopicPartition("t", 0))
        broker.restart()
        assert broker.manager.logs == {}
        broker.clock.ms += 60_000
        run_jobs(broker.manager, broker.manager.trash_jobs())
        assert not [entry for entry in tmp_path.iterdir() if entry.is_dir()]

    def test_new_topic_inherits_nothing_from_a_deleted_one_of_the_same_name(self, broker: Broker) -> None:
        log = create(broker.manager, "t")
        fill(log, 10)
        log.delete_records_before(8)
        broker.restart()
        broker.manager.delete(TopicPartition("t", 0))
        fill(create(broker.manager, "t"), 2)
        manager = broker.crash()
        again = manager.logs[TopicPartition("t", 0)]
        assert (again.start_offset, again.end_offset) == (0, 2)

    def test_a_new_topic_inherits_nothing_while_a_checkpoint_write_is_pending(
        self, broker: Broker, tmp_path: Path
    ) -> None:
        log = create(broker.manager, "t")
        fill(log, 10)
        log.flush(NOW)
        run_jobs(broker.manager, broker.manager.recovery_point_jobs())
        broker.manager.delete(TopicPartition("t", 0))
        (waiting,) = broker.manager.recovery_point_jobs()
        create(broker.manager, "t")
        assert "t 0 10" not in (tmp_path / "recovery-point-offset-checkpoint").read_text()
        waiting.run()
        assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n0\n"

    def test_a_log_that_failed_for_lack_of_descriptors_can_be_created_later(self, broker: Broker) -> None:
        with no_descriptors(), pytest.raises(DiskError) as caught:
            create(broker.manager, "t")
        assert not caught.value.fatal
        fill(create(broker.manager, "t"))
        assert broker.manager.directories[0].online
        assert broker.crash().logs[TopicPartition("t", 0)].end_offset == 3

    def test_directory_with_records_is_not_reused_for_a_new_log(self, broker: Broker) -> None:
        log = create(broker.manager, "t")
        fill(log)
        del broker.manager.directories[0].logs[TopicPartition("t", 0)]
        with pytest.raises(DiskError, match="exists"):
            create(broker.manager, "t")
        assert Path(log.path, f"{0:020d}.log").stat().st_size == log.size_bytes

    def test_strays_are_kept_under_another_name(self, broker: Broker) -> None:
        fill(create(broker.manager, "t"))
        path = broker.manager.mark_stray(TopicPartition("t", 0))
        assert re.search(r"/t-0\.[0-9a-f]{32}-stray$", path)
        assert (Path(path) / f"{0:020d}.log").stat().st_size > 0
        fresh = create(broker.manager, "t")
        assert fresh.end_offset == 0

    def test_recovery_checks_records_that_were_appended_after_a_truncation(
        self, broker: Broker, tmp_path: Path
    ) -> None:
        log = create(broker.manager, "t")
        fill(log, 5)
        log.flush(NOW)
        run_jobs(broker.manager, broker.manager.recovery_point_jobs())
        log.truncate_to(2)
        broker.manager.checkpoint_truncated([log])
        fill(log, 1)
        log.roll(log.end_offset, NOW)
        fill(log, 5)
        segment = tmp_path / "t-0" / f"{0:020d}.log"
        # A power failure loses some unsynced records that were appended after the truncation.
        segment.write_bytes(segment.read_bytes()[:-4] + bytes(4))
        again = broker.crash().logs[TopicPartition("t", 0)]
        assert [offset for offset, _ in records_from(again)] == [0, 1]

    @pytest.mark.parametrize(
        ("checkpoint", "end_offset"),
        [("recovery-point-offset-checkpoint", 6), ("cleaner-offset-checkpoint", 6), (None, 2)],
    )
    def test_gap_is_a_loss_unless_compaction_may_have_left_it(
        self, broker: Broker, tmp_path: Path, checkpoint: str | None, end_offset: int
    ) -> None:
        log = create(broker.manager, "t")
        for _ in range(2):
            fill(log)
            log.roll(log.end_offset, NOW)
        segment = tmp_path / "t-0" / f"{0:020d}.log"
        os.truncate(segment, len(batch()) * 2)
        broker.manager.abandon()
        if checkpoint is not None:
            (tmp_path / checkpoint).write_bytes(b"0\n1\nt 0 3\n")
        assert broker.start().logs[TopicPartition("t", 0)].end_offset == end_offset

    def test_without_recovery_points_no_gap_counts_as_a_loss(self, broker: Broker, tmp_path: Path) -> None:
        log = create(broker.manager, "t")
        for _ in range(2):
            fill(log)
            log.roll(log.end_offset, NOW)
        os.truncate(tmp_path / "t-0" / f"{0:020d}.log", len(batch()) * 2)
        (tmp_path / "recovery-point-offset-checkpoint").unlink()
        assert broker.crash().logs[TopicPartition("t", 0)].end_offset == 6
        # The same holds after recovery points were written again.
        run_jobs(broker.manager, broker.manager.recovery_point_jobs())
        assert broker.crash().logs[TopicPartition("t", 0)].end_offset == 6

    def test_a_truncation_above_all_checkpoints_writes_none(self, broker: Broker, tmp_path: Path) -> None:
        log = create(broker.manager, "t")
        fill(log, 2)
        log.flush(NOW)
        run_jobs(broker.manager, broker.manager.recovery_point_jobs())
        fill(log, 3)
        written = (tmp_path / "recovery-point-offset-checkpoint").stat().st_ino
        log.truncate_to(3)
        broker.manager.checkpoint_truncated([log])
        assert (tmp_path / "recovery-point-offset-checkpoint").stat().st_ino == written
        assert not (tmp_path / "replication-offset-checkpoint").exists()


class TestPeriodicTasks:
    def test_checkpoints_are_written_only_if_they_changed(self, broker: Broker, tmp_path: Path) -> None:
        log = create(broker.manager, "t")
        fill(log)
        run_jobs(broker.manager, broker.manager.high_watermark_jobs())
        path = tmp_path / "replication-offset-checkpoint"
        first = path.stat().st_ino
        run_jobs(broker.manager, broker.manager.high_watermark_jobs())
        assert path.stat().st_ino == first
        fill(log)
        run_jobs(broker.manager, broker.manager.high_watermark_jobs())
        assert path.read_bytes() == b"0\n1\nt 0 6\n"

    def test_due_flushes(self, broker: Broker) -> None:
        log = create(broker.manager, "t")
        # A new log has directory entries to sync.
        assert broker.manager.due_flushes() == [log]
        log.flush(broker.clock.ms)
        assert broker.manager.due_flushes() == []
        log.assign_leader_epoch(0)
        assert broker.manager.due_flushes() == [log]
        log.flush(broker.clock.ms)
        log.configure(LogConfig(flush_ms=1000))
        fill(log)
        broker.clock.ms += 999
        assert broker.manager.due_flushes() == []
        broker.clock.ms += 1
        assert broker.manager.due_flushes() == [log]

    def test_retention_producers_and_descriptors(self, broker: Broker) -> None:
        log = create(broker.manager, "t")
        log.configure(LogConfig(retention_ms=1000))
        data = batch(producer_id=1, producer_epoch=0, sequence=0)
        log.append_leader(data, HEADER.unpack_from(data), 0, NOW)
        log.advance_high_watermark(1)
        broker.clock.ms += 86_400_000
        assert broker.manager.check_retention_of(log) == 1
        broker.manager.expire_producers_of(log)
        assert len(log.producers) == 0
        log.release_idle_files()
        assert log.start_offset == log.end_offset == 1


class TestFailures:
    def test_one_directory_fails_and_the_other_stays_online(
        self, two: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        manager = two.manager
        logs = [create(manager, "t", partition) for partition in range(2)]
        damaged = logs[0].directory
        real = LocalDisk.replace_file

        def failing(disk: LocalDisk, path: str, data: bytes) -> None:
            if disk.directory == damaged:
                raise DiskError(damaged, path, "write", OSError(5, "Input/output error"))
            real(disk, path, data)

        monkeypatch.setattr(LocalDisk, "replace_file", failing)
        for log in logs:
            fill(log)
        run_jobs(manager, manager.high_watermark_jobs())
        assert two.offline == [(damaged, [logs[0].partition])]
        assert [directory.path for directory in manager.online_directories()] == [logs[1].directory]
        with pytest.raises(KafkaError) as caught:
            fill(logs[0])
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        fill(logs[1])
        # New partitions are not created there, and the shutdown writes no clean shutdown file.
        assert create(manager, "u").directory == logs[1].directory
        manager.stop(3)
        assert not Path(damaged, ".kafka_cleanshutdown").exists()
        assert Path(logs[1].directory, ".kafka_cleanshutdown").exists()
        monkeypatch.undo()
        two.start()

    def test_reports_of_repaired_logs_change_nothing(self, broker: Broker) -> None:
        error = DiskError(broker.paths[0], "f", "write to", OSError(28, "No space left on device"))
        error.fatal = False
        broker.manager.report(error)
        assert broker.manager.online_directories()
        error.fatal = True
        broker.manager.report(error)
        assert not broker.manager.online_directories()
        with pytest.raises(KafkaError) as caught:
            create(broker.manager, "t")
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    def test_a_log_that_cannot_be_read_takes_its_directory_offline(self, two: Broker) -> None:
        for partition in range(2):
            fill(create(two.manager, "t", partition))
        damaged = two.manager.logs[TopicPartition("t", 0)].path
        two.manager.stop(1)
        segment = Path(damaged, f"{0:020d}.log")
        segment.unlink()
        segment.mkdir()
        manager = two.start()
        assert list(manager.logs) == [TopicPartition("t", 1)]
        assert str(segment) in str(manager.directories[0].failure)

    def test_a_lost_tail_is_detected_again_until_it_is_handled(self, broker: Broker) -> None:
        fill(create(broker.manager, "t"))
        run_jobs(broker.manager, broker.manager.high_watermark_jobs())
        segment = Path(broker.manager.logs[TopicPartition("t", 0)].path, f"{0:020d}.log")
        broker.manager.stop(1)
        segment.write_bytes(b"")
        for _ in range(2):
            log = broker.start().logs[TopicPartition("t", 0)]
            assert log.lost_tail is not None
            assert (log.lost_tail.first_offset, log.lost_tail.end_offset) == (0, 3)
            broker.manager.stop(1)
        log = broker.start().logs[TopicPartition("t", 0)]
        log.lost_tail = None
        broker.manager.stop(1)
        assert broker.start().logs[TopicPartition("t", 0)].lost_tail is None

    def test_damaged_checkpoints_are_ignored(self, broker: Broker, tmp_path: Path) -> None:
        fill(create(broker.manager, "t"))
        broker.manager.stop(1)
        for kind in ("recovery-point", "log-start", "replication"):
            (tmp_path / f"{kind}-offset-checkpoint").write_bytes(b"0\n7\nt 0 1\n")
        log = broker.start().logs[TopicPartition("t", 0)]
        assert (log.start_offset, log.end_offset, log.high_watermark) == (0, 3, 0)

    def test_all_directories_offline_at_start(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        broker.manager.stop(1)

        def failing(directory: LogDir, *args: object, **kwargs: object) -> None:
            raise DiskError(directory.path, "f", "list", OSError(5, "Input/output error"))

        monkeypatch.setattr(LogDir, "load", failing)
        with pytest.raises(StorageError, match="No log directory can be used"):
            broker.start()
        monkeypatch.undo()
        broker.manager.abandon()
        broker.start()


def test_a_hundred_gigabytes_open_without_being_read(tmp_path: Path) -> None:
    """After a clean shutdown a sealed segment costs a few reads, whatever its size."""
    disk = SimDisk(str(tmp_path))
    bench = Workbench(tmp_path, LogConfig(segment_bytes=100), disk)
    bench.append_many(101)
    bench.commit_all()
    bench.log.close(NOW)
    assert len(bench.log.segments) == 101
    for segment in bench.log.segments[:-1]:
        # Sparse files take no space; a scan would find no batches in them.
        os.truncate(segment.path_of(".log"), 1 << 30)
    before = disk.medium.operations
    log = bench.reopen()
    assert log.size_bytes > 100 << 30
    assert log.end_offset == 101
    assert disk.medium.operations - before < 6 * 101
