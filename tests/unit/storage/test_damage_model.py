"""Bits are flipped, ranges zeroed, files emptied, truncated or removed after a clean shutdown.

- A read at any offset returns the record that was written there or an error, never another record.
- A consumer of committed records never gets an aborted one.
- The last segment and the checkpoints of the log end are not damaged here.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ruslo.config.log_config import LogConfig
from ruslo.model.clock import SystemClock
from ruslo.model.errors import KafkaError, StorageError
from ruslo.records.batch import TRANSACTIONAL
from ruslo.records.reader import check_crc, iter_batches, read_records
from ruslo.storage.log import Log
from ruslo.storage.log_manager import LogManager
from ruslo.storage.producer_replay import read_marker
from ruslo.storage.scrub import SegmentScrub
from tests.unit.storage.workbench import PARTITION, TOPIC_ID, ManualClock, Workbench, batch

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=200)
ROUNDS = 12


@dataclass
class Original:
    directory: Path
    values: dict[int, bytes]
    aborted: set[int]
    last_base: int


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    """Several segments with committed and aborted transactions that span segments."""
    directory = tmp_path_factory.mktemp("original")
    manager = LogManager.open([str(directory)], SystemClock())
    manager.load(lambda _: CONFIG)
    bench = Workbench.__new__(Workbench)
    bench.log = log = manager.create(PARTITION, TOPIC_ID, CONFIG)
    bench.disk, bench.clock = log.disk, ManualClock()
    chance = random.Random(5)
    values: dict[int, bytes] = {}
    aborted: set[int] = set()
    opened: dict[int, list[int]] = {}
    sequences: dict[int, int] = {}
    for number in range(150):
        producer_id = chance.choice([-1, 11, 12, 13])
        value = b"%d %d " % (number, producer_id) + chance.randbytes(chance.randrange(40))
        producer: dict[str, int] = {}
        if producer_id >= 0:
            sequence = sequences.get(producer_id, 0)
            producer = {
                "producer_id": producer_id,
                "producer_epoch": 0,
                "sequence": sequence,
                "attributes": TRANSACTIONAL,
            }
        count = chance.randrange(1, 4)
        appended = bench.append(batch(count, value=value, **producer))
        offsets = range(appended.base_offset, appended.last_offset + 1)
        values |= dict.fromkeys(offsets, value)
        if producer_id >= 0:
            sequences[producer_id] = sequence + count
            opened.setdefault(producer_id, []).extend(offsets)
        if opened and chance.random() < 0.25:
            ending = chance.choice(sorted(opened))
            commit = chance.random() < 0.5
            bench.end_transaction(ending, 0, commit=commit, version=0)
            offsets_in = opened.pop(ending)
            aborted |= set() if commit else set(offsets_in)
    for producer_id in sorted(opened):
        bench.end_transaction(producer_id, 0, commit=True, version=0)
    bench.commit_all()
    assert len(log.segments) > 5
    assert sum(segment.txn_index.exists for segment in log.segments) > 3
    last_base = log.active.base_offset
    manager.stop(1)
    return Original(directory, values, aborted, last_base)


def flip_bit(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def zero_range(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data))
    stop = min(start + chance.choice([1, 8, 61, 200, 1000]), len(data))
    data[start:stop] = bytes(stop - start)


def zero_all(data: bytearray, chance: random.Random) -> None:
    data[:] = bytes(len(data))


def truncate(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data)) :]


def empty(data: bytearray, chance: random.Random) -> None:
    del data[:]


DAMAGES = [flip_bit, zero_range, zero_all, truncate, empty]


def damage(path: Path, act: Callable[[bytearray, random.Random], None], chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if data:
        act(data, chance)
        path.write_bytes(data)


def read_as_consumer(
    log: Log, offset: int, committed_only: bool, scrubbed: bool
) -> Iterator[tuple[int, bytes | None]]:
    """Return the records of one fetch as Kafka's consumer reads them; raise where damage makes it fail.

    Not every consumer checks CRCs: after the scrubber ran, damaged batches must not even be sent.
    """
    bound = log.last_stable_offset if committed_only else log.high_watermark
    read = log.read(offset, 1 << 20, bound)
    if read.slice is None:
        return
    aborted = sorted(log.aborted_transactions(offset, log.end_of_read(read)), key=lambda each: each[1])
    data = read.slice.read()
    producers: set[int] = set()
    batches = list(iter_batches(data))
    assert batches, "a response begins with a complete batch"
    for position, header in batches:
        content = data[position : position + header.size]
        if not check_crc(content):
            assert not scrubbed
            raise StorageError("a consumer takes no batch whose checksum is wrong")
        while aborted and aborted[0].first_offset <= header.last_offset:
            producers.add(aborted.pop(0).producer_id)
        if header.is_control:
            marker = read_marker(content)
            if marker is not None and not marker.committed:
                producers.discard(marker.producer_id)
            continue
        if committed_only and header.attributes & TRANSACTIONAL and header.producer_id in producers:
            continue
        for record in read_records(content):
            if record.offset >= offset:
                yield record.offset, record.value


def check_reads(log: Log, original: Original, *, scrubbed: bool = False, step: int = 1) -> int:
    """Return the number of offsets that returned an error."""
    errors = 0
    for committed_only in (False, True):
        bound = log.last_stable_offset if committed_only else log.high_watermark
        expected = [
            offset
            for offset in original.values
            if log.start_offset <= offset < bound and not (committed_only and offset in original.aborted)
        ]
        for offset in range(log.start_offset, bound, step):
            records_read: dict[int, bytes | None] = {}
            try:
                records_read.update(read_as_consumer(log, offset, committed_only, scrubbed))
            except (KafkaError, StorageError):
                errors += 1
                if not records_read:
                    continue
            due = [each for each in expected if each >= offset][: len(records_read)]
            assert list(records_read) == due, f"read at {offset}"
            assert all(original.values[each] == value for each, value in records_read.items())
    return errors


def victims(directory: Path, kind: str, last_base: int) -> list[Path]:
    found = [path for path in sorted(directory.rglob(f"*{kind}")) if path.is_file()]
    if kind == ".log":
        found = [path for path in found if int(path.name.split(".")[0]) < last_base]
    return [path for path in found if path.stat().st_size]


def scrub(log: Log) -> None:
    for segment in list(log.segments):
        found = SegmentScrub(log, segment, None)
        while not found.step(1 << 20):
            pass
        assert found.apply()


def open_damaged(
    original: Original, directory: Path, damage_it: Callable[[Path], None], clean: bool = True
) -> LogManager:
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(original.directory, directory)
    damage_it(directory)
    if not clean:
        (directory / ".kafka_cleanshutdown").unlink()
    manager = LogManager.open([str(directory)], SystemClock())
    manager.load(lambda _: CONFIG)
    return manager


@pytest.mark.parametrize("kind", [".log", ".index", ".timeindex", ".txnindex", ".snapshot", "-checkpoint"])
@pytest.mark.parametrize("act", DAMAGES)
def test_damage_never_returns_other_records(
    original: Original, tmp_path: Path, kind: str, act: Callable[[bytearray, random.Random], None]
) -> None:
    rounds = 2 if act in (zero_all, empty) else ROUNDS if kind == ".log" else ROUNDS // 2
    for seed in range(rounds):
        chance = random.Random(f"{kind} {act.__name__} {seed}")

        def damage_file(directory: Path, chance: random.Random = chance) -> None:
            damage(chance.choice(victims(directory, kind, original.last_base)), act, chance)

        # Without a recovery point the log is recovered from its start and truncated where it is damaged.
        clean = kind in (".log", "-checkpoint") or chance.random() < 0.7
        manager = open_damaged(original, tmp_path / "data", damage_file, clean)
        log = manager.logs[PARTITION]
        step = chance.randrange(1, 8)
        errors = check_reads(log, original, step=step)
        assert errors == 0 or kind == ".log"
        scrub(log)
        assert check_reads(log, original, scrubbed=True, step=step) == 0 or kind == ".log"
        manager.stop(2)


def test_removed_transaction_indexes(original: Original, tmp_path: Path) -> None:
    for path in sorted(original.directory.rglob("*.txnindex")):

        def remove(directory: Path, path: Path = path) -> None:
            (directory / path.relative_to(original.directory)).unlink()

        manager = open_damaged(original, tmp_path / "data", remove)
        assert check_reads(manager.logs[PARTITION], original, step=3) == 0
        manager.stop(2)
