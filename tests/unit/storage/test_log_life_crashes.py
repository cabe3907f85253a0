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
"""The number of disk operations that create the log, before it has data."""
Written = dict[int, tuple[bytes, bytes | None]]


class Lifetime:
    """Appends, rolls, flushes, compacts and deletes, and tracks which records must survive."""

    def __init__(self, directory: Path, disk: SimDisk) -> None:
        self.bench = Workbench(directory, COMPACTED, disk)
        self.written: Written = {}
        self.durable_end = 0
        self.recovery_points = CheckpointFile(disk, f"{directory}/{RECOVERY_POINTS}")
        self.recovery_point = 0
        """The last offset that is certainly durable."""
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
        # Noted before the append, because a failed append may leave any part in the file.
        first = self.bench.log.end_offset
        self.written |= {first + at: pair for at, pair in enumerate(pairs)}
        self.bench.append(keyed(pairs, codec=codec, timestamp=self.bench.clock.ms, **producer))

    def transaction(self, *, commit: bool) -> None:
        entry = self.bench.log.producers.entries.get(9)
        epoch = 0 if entry is None else entry.epoch
        self.append(producer_id=9, producer_epoch=epoch, sequence=0, attributes=TRANSACTIONAL)
        self.bench.end_transaction(9, epoch + 1, commit=commit)


def check(lifetime: Lifetime, directory: Path) -> None:
    """Check that the log opens, has only written records, and has the last value of all durable keys."""
    disk = SimDisk(str(directory))
    bench = lifetime.bench
    bench.disk = disk
    bench.trash = type(bench.trash)(disk, bench.clock)
    recovery_points = read_offsets(disk, f"{directory}/{RECOVERY_POINTS}") or {}
    recovery_point = recovery_points.get(PARTITION, 0)
    assert lifetime.recovery_point <= recovery_point <= lifetime.durable_end
    bench.compacted_at_most = 0  # the recovery point on disk
    log = bench.reopen(clean=False, recovery_point=recovery_point)
    found = {offset: (key, value) for offset, key, value in kept_records(log)}
    for offset, pair in found.items():
        assert lifetime.written[offset] == pair
    assert log.end_offset >= lifetime.durable_end
    aborted = log.aborted_transactions(0, log.end_offset)
    assert all(each.producer_id == 9 for each in aborted)
    last: dict[bytes | None, int] = {}
    for offset, (key, _) in sorted(found.items()):
        last[key] = offset
    durable: dict[bytes, int] = {}
    for offset, (key, _) in sorted(lifetime.written.items()):
        if offset < lifetime.durable_end and not is_aborted(lifetime, offset):
            durable[key] = offset
    for key, offset in durable.items():
        if lifetime.written[offset][1] is not None:
            assert last.get(key, -1) >= offset, (
                f"{key!r} was durable at {offset}, the log has {last.get(key)}"
            )
    # The log accepts appends.
    log.advance_high_watermark(log.end_offset)
    bench.append(keyed([(b"key-1", b"afterwards")]))
    roll(bench)
    compact(bench)
    assert kept_records(log)[-1][1:] == (b"key-1", b"afterwards")


def is_aborted(lifetime: Lifetime, offset: int) -> bool:
    return any(first <= offset <= last for first, last in life_aborts(lifetime))


def life_aborts(lifetime: Lifetime) -> list[tuple[int, int]]:
    """Markers are at the offsets without records; every second marker aborts."""
    end = max(lifetime.written) + 2
    marks = [offset for offset in range(end) if offset not in lifetime.written]
    return [(mark - 4, mark) for mark in marks[1::2]]


def operations_of_a_lifetime(tmp_path: Path) -> tuple[int, int]:
    directory = tmp_path / "whole"
    directory.mkdir()
    disk = SimDisk(str(directory))
    lifetime = Lifetime(directory, disk)
    lifetime.run()
    assert lifetime.checkpoint is not None
    check(lifetime, directory)
    return disk.medium.changes, disk.medium.operations


@pytest.mark.parametrize("lost", ["nothing", "something", "everything"])
def test_disk_that_fails_from_any_operation_on(tmp_path: Path, lost: str) -> None:
    """``lost`` is the amount of unsynced data that the power failure loses."""
    changes, _ = operations_of_a_lifetime(tmp_path)
    directory = tmp_path / "data"
    for dies_at in range(CREATION[0], changes):
        directory.mkdir()
        disk = SimDisk(str(directory), dies_at, seed=dies_at)
        lifetime = Lifetime(directory, disk)
        with pytest.raises(DiskError):
            lifetime.run()
        if lost != "nothing":
            disk.medium.lose_power(everything=lost == "everything")
        check(lifetime, directory)
        shutil.rmtree(directory)


def test_a_single_failed_operation(tmp_path: Path) -> None:
    """Every failure is a DiskError, and afterwards the log opens with all durable records."""
    _, operations = operations_of_a_lifetime(tmp_path)
    directory = tmp_path / "data"
    for fails_at in range(CREATION[1], operations):
        directory.mkdir()
        disk = SimDisk(str(directory))
        lifetime = Lifetime(directory, disk)
        disk.medium.fails_at = fails_at
        with pytest.raises((DiskError, KafkaError)):
            lifetime.run()
        check(lifetime, directory)
        shutil.rmtree(directory)
