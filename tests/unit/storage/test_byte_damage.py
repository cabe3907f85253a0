"""Random bytes are flipped, truncated and zeroed in every type of file of a log directory.

The directory opens, or goes offline with a message, and a reader never gets a record that was not written.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from ruslo.model.clock import SystemClock
from ruslo.model.errors import KafkaError, StorageError
from ruslo.records.batch import TRANSACTIONAL
from ruslo.records.reader import check_crc, iter_batches, read_records
from ruslo.storage.log import Log
from ruslo.storage.log_manager import LogManager
from tests.unit.storage.compacting import COMPACTED, compact, keyed, roll
from tests.unit.storage.workbench import PARTITION, TOPIC_ID, ManualClock, Workbench

KINDS = [
    ".log",
    ".index",
    ".timeindex",
    ".txnindex",
    ".snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    ".kafka_cleanshutdown",
]
ROUNDS = 12


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, bytes | None]]:
    """A log directory after a clean shutdown, and the value at each offset of its only log."""
    directory = tmp_path_factory.mktemp("original")
    manager = LogManager.open([str(directory)], SystemClock())
    manager.load(lambda _: COMPACTED)
    log = manager.create(PARTITION, TOPIC_ID, COMPACTED)
    bench = Workbench.__new__(Workbench)
    bench.log, bench.disk, bench.clock = log, log.disk, ManualClock()
    written: dict[int, bytes | None] = {}
    chance = random.Random(3)
    for number in range(40):
        producer = {"producer_id": 5, "producer_epoch": 0, "sequence": number}
        if number == 30:
            producer = {"producer_id": 9, "producer_epoch": 0, "sequence": 0, "attributes": TRANSACTIONAL}
        elif number > 30:
            producer = {}
        value = chance.randbytes(80)
        result = bench.append(keyed([(b"k%d" % (number % 15), value)], codec=number % 5, **producer))
        written[result.base_offset] = value
        if number == 30:
            bench.end_transaction(9, 1, commit=False)
    roll(bench)
    compact(bench)
    for number in range(6):
        value = chance.randbytes(80)
        written[bench.append(keyed([(b"k%d" % number, value)])).base_offset] = value
    bench.commit_all()
    directory_ = manager.directory_of(PARTITION)
    assert directory_ is not None
    directory_.checkpoints.cleaned[PARTITION] = 3
    manager.stop(1)
    return directory, written


def damage(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if not data:
        return
    at = chance.randrange(len(data))
    match chance.randrange(3):
        case 0:
            data[at] ^= 1 << chance.randrange(8)
        case 1:
            del data[at:]
        case _:
            stop = min(at + chance.randrange(1, 64), len(data))
            data[at:stop] = bytes(stop - at)
    path.write_bytes(data)


def served(log: Log) -> dict[int, bytes | None]:
    """The records that a consumer reads; consumers check the CRC of batches."""
    found: dict[int, bytes | None] = {}
    offset = log.start_offset
    while offset < log.end_offset:
        try:
            part = log.read(offset, 1 << 20, log.end_offset)
            data = b"" if part.slice is None else part.slice.read()
        except (KafkaError, StorageError):
            return found
        batches = list(iter_batches(data))
        if not batches:
            break
        for position, header in batches:
            batch = data[position : position + header.size]
            if not check_crc(batch):
                return found
            if not header.is_control:
                found |= {record.offset: record.value for record in read_records(batch)}
            offset = header.last_offset + 1
    return found


def start(directory: Path) -> tuple[LogManager | None, Log | None]:
    """The logs of the directory, or None if it cannot be opened."""
    try:
        manager = LogManager.open([str(directory)], SystemClock())
    except StorageError as error:
        _expect_name(error, directory)
        return None, None
    try:
        manager.load(lambda _: COMPACTED)
    except StorageError as error:
        _expect_name(error, directory)
    return manager, manager.get(PARTITION)


def _expect_name(error: StorageError, directory: Path) -> None:
    assert str(directory) in str(error)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_damage(
    original: tuple[Path, dict[int, bytes | None]], tmp_path: Path, kind: str, clean: bool
) -> None:
    source, written = original
    opened = 0
    for seed in range(ROUNDS):
        chance = random.Random(f"{kind} {seed}")
        directory = tmp_path / "data"
        shutil.copytree(source, directory)
        victims = [
            path for path in sorted(directory.rglob("*")) if path.is_file() and path.name.endswith(kind)
        ]
        assert victims, f"no file of type {kind}"
        damage(chance.choice(victims), chance)
        if not clean:
            (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
            (directory / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
        manager, log = start(directory)
        if manager is not None and log is not None:
            opened += 1
            for offset, value in served(log).items():
                # The checksum does not cover the base offset.
                assert value in written.values() if kind == ".log" else written[offset] == value
        if manager is not None:
            manager.stop(2)
        shutil.rmtree(directory)
    assert opened
