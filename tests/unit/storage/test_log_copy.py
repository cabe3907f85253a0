"""A log moves to another log directory: the copy follows it, replaces it, and every crash is harmless."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ruslo.config.log_config import LogConfig
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.model.topics import TopicPartition
from ruslo.records.batch import HEADER, TRANSACTIONAL
from ruslo.records.control import end_txn_batch
from ruslo.storage.disk import Disk, DiskError
from ruslo.storage.local_disk import LocalDisk
from ruslo.storage.log import Log
from ruslo.storage.log_copy import LogCopy, whole_batches_up_to
from ruslo.storage.log_manager import LogManager
from ruslo.storage.meta_properties import MetaProperties, write_meta_properties
from ruslo.testing.sim_disk import SimDisk
from tests.unit.storage.workbench import NOW, PARTITION, TOPIC_ID, ManualClock, batch, records_from

CONFIG = LogConfig(segment_bytes=4000, index_interval_bytes=200)
IDS = {"one": b"1" * 16, "two": b"2" * 16}


class Dirs:
    """Two log directories; the log is in the first one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name, directory_id in IDS.items():
            (root / name).mkdir(parents=True)
            meta = MetaProperties("c", 1, directory_id)
            write_meta_properties(LocalDisk(str(root / name)), meta)
        self.manager: LogManager
        self.clock = ManualClock()
        self.disks: dict[str, SimDisk] = {}

    def open(self, *, simulated: bool = False) -> LogManager:
        def open_disk(path: str) -> Disk:
            if not simulated:
                return LocalDisk(path)
            self.disks[path] = SimDisk(path)
            return self.disks[path]

        paths = [str(self.root / name) for name in IDS]
        self.manager = LogManager.open(paths, self.clock, open_disk=open_disk)
        self.manager.load(lambda _: CONFIG)
        return self.manager

    def create(self) -> Log:
        return self.manager.create(PARTITION, TOPIC_ID, CONFIG, IDS["one"])

    def copy(self, log: Log) -> LogCopy:
        return LogCopy(log, self.manager.create_future(log, self.manager.directories[1]))

    def names(self, name: str) -> set[str]:
        return {each.name for each in (self.root / name).iterdir() if each.name.startswith("t-")}


@pytest.fixture
def dirs(tmp_path: Path) -> Dirs:
    made = Dirs(tmp_path)
    made.open()
    return made


def append(log: Log, value: bytes, epoch: int = 0, **producer: int) -> None:
    data = batch(2, value=value * 20, **producer)
    log.append_leader(data, HEADER.unpack_from(data), epoch, NOW)
    log.advance_high_watermark(log.end_offset)


def fill(log: Log, count: int = 60) -> None:
    for number in range(count):
        append(log, b"%d" % number)


def abort(log: Log, producer_id: int) -> None:
    append(log, b"aborted", producer_id=producer_id, producer_epoch=0, sequence=0, attributes=TRANSACTIONAL)
    marker = end_txn_batch(
        commit=False, producer_id=producer_id, producer_epoch=1, coordinator_epoch=0, timestamp=NOW
    )
    log.append_marker(marker, 0, NOW)
    log.advance_high_watermark(log.end_offset)


def catch_up(copy: LogCopy, chunks: int = 10_000) -> None:
    for _ in range(chunks):
        copy.follow_source()
        chunk = copy.next_slice(1000)
        if chunk is None:
            break
        assert copy.append(chunk.read(), NOW)


def move(dirs: Dirs, log: Log) -> None:
    copy = dirs.copy(log)
    catch_up(copy)
    copy.future.flush(NOW)
    write = dirs.manager.directories[1].checkpoints.log_starts()
    if write is not None:
        write.run()
    dirs.manager.replace_by_future(copy)


def test_the_log_continues_in_the_other_directory(dirs: Dirs) -> None:
    log = dirs.create()
    fill(log)
    abort(log, 7)
    append(log, b"producer", producer_id=5, producer_epoch=0, sequence=0)
    append(log, b"next epoch", epoch=3)
    log.delete_records_before(9)
    log.assign_leader_epoch(4)
    before = records_from(log, 9)
    aborted = log.aborted_transactions(0, log.end_offset)
    reader = log.read(9, 1000, log.end_offset).slice
    move(dirs, log)
    assert records_from(log, 9) == before
    assert reader is not None
    assert reader.read(), "a response that is being sent keeps the old file"
    assert dirs.manager.directory_of(PARTITION) is dirs.manager.directories[1]
    assert dirs.names("two") == {"t-0"}
    assert [name.endswith("-delete") for name in dirs.names("one")] == [True]
    append(log, b"producer", epoch=4, producer_id=5, producer_epoch=0, sequence=2)
    after = records_from(log, 9)
    epochs = log.epochs.entries()
    assert epochs[-1][0] == 4
    for clean in (True, False):
        if clean:
            dirs.manager.stop(1)
        else:
            dirs.manager.abandon()
        log = dirs.open().logs[PARTITION]
        assert (log.start_offset, records_from(log, 9), log.epochs.entries()) == (9, after, epochs)
        assert log.aborted_transactions(0, log.end_offset) == aborted
        entry = log.producers.entries[5]
        assert entry.next_sequence == 4
    dirs.manager.abandon()


def test_it_moves_back(dirs: Dirs) -> None:
    log = dirs.create()
    fill(log)
    move(dirs, log)
    fill(log, 3)
    copy = LogCopy(log, dirs.manager.create_future(log, dirs.manager.directories[0]))
    catch_up(copy)
    dirs.manager.replace_by_future(copy)
    fill(log, 3)
    before = records_from(log)
    assert log.directory == str(dirs.root / "one")
    dirs.manager.abandon()
    assert records_from(dirs.open().logs[PARTITION]) == before
    dirs.manager.abandon()


def test_a_truncation_of_the_source(dirs: Dirs) -> None:
    log = dirs.create()
    fill(log)
    copy = dirs.copy(log)
    catch_up(copy)
    log.truncate_to(40)
    append(log, b"other", epoch=1)
    assert copy.next_slice(1000) is None or copy.lag < 0
    assert not copy.append(b"", NOW), "what was read before the truncation is not appended"
    catch_up(copy)
    assert records_from(copy.future) == records_from(log)
    assert copy.future.epochs.entries() == log.epochs.entries()
    chunk = copy.next_slice(1000)
    assert chunk is None
    log.truncate_fully_and_start_at(500)
    append(log, b"far", epoch=2)
    catch_up(copy)
    assert (copy.future.start_offset, records_from(copy.future, 500)) == (500, records_from(log, 500))
    dirs.manager.replace_by_future(copy)
    dirs.manager.abandon()


def test_records_are_deleted_while_they_are_copied(dirs: Dirs) -> None:
    log = dirs.create()
    fill(log)
    copy = dirs.copy(log)
    catch_up(copy, 1)
    assert copy.lag > 0
    log.delete_records_before(81)
    log.delete_old_segments(NOW)
    catch_up(copy)
    assert copy.future.start_offset == 81, "the log start offset is inside a batch"
    assert records_from(copy.future, 81) == records_from(log, 81)
    dirs.manager.abandon()


def test_records_are_deleted_while_a_slice_is_appended(dirs: Dirs) -> None:
    """The next bytes of the slice are older than the log start: they are not appended."""
    log = dirs.create()
    fill(log)
    copy = dirs.copy(log)
    chunk = copy.next_slice(2000)
    assert chunk is not None
    first, *rest = whole_batches_up_to(chunk.read(), 300)
    assert rest
    log.delete_records_before(81)
    assert not copy.append(first, NOW)
    catch_up(copy)
    assert records_from(copy.future, 81) == records_from(log, 81)
    dirs.manager.replace_by_future(copy)
    dirs.manager.abandon()


def test_a_log_that_ends_with_a_gap_moves(dirs: Dirs) -> None:
    """A follower was truncated where compaction of its leader had removed batches."""
    log = dirs.create()
    log.configure(LogConfig(cleanup_policy=("compact",)))
    for base_offset in (0, 10):
        log.append_as_is(bytes(batch(2, base_offset=base_offset, leader_epoch=0)), NOW)
    log.truncate_to(5)
    assert log.end_offset == 5
    copy = dirs.copy(log)
    catch_up(copy)
    assert (copy.future.end_offset, copy.has_caught_up) == (2, True)
    dirs.manager.replace_by_future(copy)
    assert log.end_offset == 5
    log.append_as_is(bytes(batch(2, base_offset=7, leader_epoch=0)), NOW)
    assert [offset for offset, _ in records_from(log)] == [0, 1, 7, 8]
    before = records_from(log)
    dirs.manager.abandon()
    assert records_from(dirs.open().logs[PARTITION]) == before
    dirs.manager.abandon()


def test_a_restart_goes_on_with_the_copy(dirs: Dirs) -> None:
    log = dirs.create()
    fill(log)
    copy = dirs.copy(log)
    catch_up(copy, 5)
    copied = copy.future.end_offset
    log.truncate_to(copied - 4)
    append(log, b"diverges", epoch=1)
    fill(log, 5)
    before = records_from(log)
    dirs.manager.stop(1)
    manager = dirs.open()
    found = manager.future_of(PARTITION)
    assert found is not None
    assert found[1].end_offset == copied
    log = manager.logs[PARTITION]
    copy = LogCopy(log, found[1])
    assert copy.future.end_offset == copied - 4, "the part that diverges is removed"
    catch_up(copy)
    manager.replace_by_future(copy)
    assert records_from(log) == before
    manager.abandon()


def test_a_copy_that_is_not_needed_is_deleted(dirs: Dirs) -> None:
    log = dirs.create()
    fill(log)
    catch_up(dirs.copy(log), 3)
    dirs.manager.drop_future(PARTITION)
    assert dirs.manager.futures() == []
    assert [name.endswith("-delete") for name in dirs.names("two")] == [True]
    dirs.copy(log)
    dirs.manager.abandon()


def test_a_long_topic_name_cannot_move(dirs: Dirs) -> None:
    name = TopicPartition("t" * 240, 0)
    log = dirs.manager.create(name, TOPIC_ID, CONFIG, IDS["one"])
    with pytest.raises(KafkaError) as raised:
        dirs.manager.create_future(log, dirs.manager.directories[1])
    assert raised.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    dirs.manager.abandon()


def test_only_a_copy_that_the_metadata_names_is_used(dirs: Dirs) -> None:
    log = dirs.create()
    fill(log)
    copy = dirs.copy(log)
    catch_up(copy)
    copy.future.flush(NOW)
    dirs.manager.abandon()
    shutil.rmtree(dirs.root / "one" / "t-0")
    manager = dirs.open()
    assert not manager.promote_future(PARTITION, TOPIC_ID, IDS["one"])
    assert not manager.promote_future(PARTITION, Uuid(b"x" * 16), IDS["two"])
    assert manager.promote_future(PARTITION, TOPIC_ID, IDS["two"])
    assert dirs.names("two") == {"t-0"}
    assert len(records_from(manager.logs[PARTITION])) == 120
    manager.abandon()


@pytest.mark.parametrize("loses_power", [False, True])
def test_a_crash_at_every_step(tmp_path: Path, loses_power: bool) -> None:
    """Every change of the two disks is the last one once; then all records are there, in one directory."""
    changes, dies_at = 1, 0
    while dies_at < changes:
        root = tmp_path / "data"
        dirs = Dirs(root)
        dirs.open(simulated=True)
        one, two = dirs.disks.values()
        two.medium = one.medium
        log = dirs.create()
        fill(log, 30)
        abort(log, 7)
        log.delete_records_before(5)
        log.flush(NOW)
        dirs.manager.directories[0].checkpoints.write_all()
        before = records_from(log, 5)
        one.medium.dies_at = one.medium.changes + dies_at
        began = one.medium.changes
        try:
            move(dirs, log)
        except DiskError:
            changes = max(changes, one.medium.changes - began + 1)
        else:
            changes = 0
        dirs.manager.abandon()
        if loses_power:
            one.medium.lose_power(everything=True)
        manager = dirs.open()
        if PARTITION not in manager.logs:
            assert manager.promote_future(PARTITION, TOPIC_ID, IDS["two"])
        log = manager.logs[PARTITION]
        assert log.start_offset == 5
        assert records_from(log, 5) == before, f"after {dies_at} changes"
        found = manager.future_of(PARTITION)
        copy = dirs.copy(log) if found is None and log.directory.endswith("one") else None
        if found is not None:
            copy = LogCopy(log, found[1])
        if copy is not None:
            catch_up(copy)
            manager.replace_by_future(copy)
        assert records_from(log, 5) == before
        append(log, b"afterwards")
        manager.abandon()
        shutil.rmtree(root)
        dies_at += 1
    assert dies_at > 20
