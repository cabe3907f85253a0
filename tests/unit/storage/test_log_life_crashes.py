"""Operations of a log on a disk that fails at the N-th operation, for every N, and with power failures."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from ruslo.model.errors import KafkaError
from ruslo.records.batch import TRANSACTIONAL
from ruslo.storage.checkpoints import RECOVERY_POINTS, CheckpointFile, read_offsets
from ruslo.storage.disk import DiskError
from ruslo.testing.sim_disk import SimDisk
from tests.unit.storage.compacting import COMPACTED, compact, kept_records, keyed, roll
from tests.unit.storage.workbench import PARTITION, Workbench

CREATION = (8, 12)
"""Changes and operations of the creation of the log, before it has data."""
Written = dict[int, tuple[bytes, bytes | None]]


class Life:
    """Appends, rolls, flushes, compacts and deletes, and knows which records must exist afterwards."""

    def __init__(self, directory: Path, disk: SimDisk) -> None:
        self.bench = Workbench(directory, COMPACTED, disk)
        self.written: Written = {}
        self.durable_end = 0
        self.recovery_points = CheckpointFile(disk, f"{directory}/{RECOVERY_POINTS}")
        self.recovery_point = 0
        """The last offset that was certainly synced."""
        self.checkpoint: int | None = None
        self.chance = random.Random(5)

    def run(self) -> None:
        for part in range(3):
            for number in range(7):
                self.append(codec=number % 2 * 3)
            self.transaction(commit=part % 2 == 0)
            self.bench.commit_all()
            self.bench.log.flush(self.bench.clock.ms)
            self.durable_end = self.bench.log.recovery_point
            roll(self.bench)
            self.write_recovery_point()
            found = compact(self.bench, self.checkpoint)
            if found is not None:
                self.checkpoint = found[0]
            self.bench.clock.ms += 50_000_000
            self.bench.log.delete_old_segments(self.bench.clock.ms)
            self.bench.trash.remove_due()
        self.bench.log.close(self.bench.clock.ms)
        self.durable_end = self.bench.log.end_offset

    def write_recovery_point(self) -> None:
        write = self.recovery_points.prepare({PARTITION: self.durable_end})
        assert write is not None
        write.run()
        self.recovery_point = self.durable_end

    def append(self, codec: int = 0, **producer: int) -> None:
        pairs = [
            (
                b"key-%d" % self.chance.randrange(8),
                None if self.chance.random() < 0.2 else self.chance.randbytes(30),
            )
            for _ in range(self.chance.randint(1, 4))
        ]
        # Recorded before, because a failed append may leave any part in the file.
        first = self.bench.log.end_offset
        self.written |= {first + at: pair for at, pair in enumerate(pairs)}
        self.bench.append(keyed(pairs, codec=codec, timestamp=self.bench.clock.ms, **producer))

    def transaction(self, *, commit: bool) -> None:
        entry = self.bench.log.producers.entries.get(9)
        epoch = 0 if entry is None else entry.epoch
        self.append(producer_id=9, producer_epoch=epoch, sequence=0, attributes=TRANSACTIONAL)
        self.bench.end_transaction(9, epoch + 1, commit=commit)


def check(life: Life, directory: Path) -> None:
    """The log opens; it has nothing that was not written, and the last value of all durable keys."""
    disk = SimDisk(str(directory))
    bench = life.bench
    bench.disk = disk
    bench.trash = type(bench.trash)(disk, bench.clock)
    recovery_points = read_offsets(disk, f"{directory}/{RECOVERY_POINTS}") or {}
    recovery_point = recovery_points.get(PARTITION, 0)
    assert life.recovery_point <= recovery_point <= life.durable_end
    bench.compacted_at_most = 0  # the recovery point on disk
    log = bench.reopen(clean=False, recovery_point=recovery_point)
    found = {offset: (key, value) for offset, key, value in kept_records(log)}
    for offset, pair in found.items():
        assert life.written[offset] == pair
    assert log.end_offset >= life.durable_end
    aborted = log.aborted_transactions(0, log.end_offset)
    assert all(each.producer_id == 9 for each in aborted)
    last: dict[bytes | None, int] = {}
    for offset, (key, _) in sorted(found.items()):
        last[key] = offset
    safe: dict[bytes, int] = {}
    for offset, (key, _) in sorted(life.written.items()):
        if offset < life.durable_end and not is_aborted(life, offset):
            safe[key] = offset
    for key, offset in safe.items():
        if life.written[offset][1] is not None:
            assert last.get(key, -1) >= offset, f"{key!r} was safe at {offset}, the log has {last.get(key)}"
    # The log accepts appends.
    log.advance_high_watermark(log.end_offset)
    bench.append(keyed([(b"key-1", b"afterwards")]))
    roll(bench)
    compact(bench)
    assert kept_records(log)[-1][1:] == (b"key-1", b"afterwards")


def is_aborted(life: Life, offset: int) -> bool:
    return any(first <= offset <= last for first, last in life_aborts(life))


def life_aborts(life: Life) -> list[tuple[int, int]]:
    """Markers are at the offsets without records; every second one aborts."""
    end = max(life.written) + 2
    marks = [offset for offset in range(end) if offset not in life.written]
    return [(mark - 4, mark) for mark in marks[1::2]]


def operations_of_a_whole_life(tmp_path: Path) -> tuple[int, int]:
    directory = tmp_path / "whole"
    directory.mkdir()
    disk = SimDisk(str(directory))
    life = Life(directory, disk)
    life.run()
    assert life.checkpoint is not None
    check(life, directory)
    return disk.medium.changes, disk.medium.operations


@pytest.mark.parametrize("lost", ["nothing", "something", "everything"])
def test_a_disk_that_fails_from_any_change_on(tmp_path: Path, lost: str) -> None:
    """``lost``: how much unsynced data the power failure loses."""
    changes, _ = operations_of_a_whole_life(tmp_path)
    directory = tmp_path / "data"
    for dies_at in range(CREATION[0], changes):
        directory.mkdir()
        disk = SimDisk(str(directory), dies_at, seed=dies_at)
        life = Life(directory, disk)
        with pytest.raises(DiskError):
            life.run()
        if lost != "nothing":
            disk.medium.lose_power(everything=lost == "everything")
        check(life, directory)
        shutil.rmtree(directory)


def test_a_single_failed_operation(tmp_path: Path) -> None:
    """Every failure is a DiskError, and afterwards the log opens with all durable records."""
    _, operations = operations_of_a_whole_life(tmp_path)
    directory = tmp_path / "data"
    for fails_at in range(CREATION[1], operations):
        directory.mkdir()
        disk = SimDisk(str(directory))
        life = Life(directory, disk)
        disk.medium.fails_at = fails_at
        with pytest.raises((DiskError, KafkaError)):
            life.run()
        check(life, directory)
        shutil.rmtree(directory)
