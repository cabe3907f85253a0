"""Indexes that do not match their segment are detected when the log is opened, and rebuilt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c

from ruslo.config.log_config import LogConfig
from ruslo.storage.checkpoints import TxnIndexChecksum
from ruslo.storage.index import OFFSET_ENTRY, TIME_ENTRY
from ruslo.storage.index_check import find_fault
from ruslo.storage.txn_index import AbortedTransaction
from tests.unit.storage.workbench import NOW, Workbench, batch

CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=100)
ABORT = AbortedTransaction(9, 1, 2, 3)

Damage = Callable[[bytes], bytes]


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    """Three segments with several entries in each index; the first one has aborted transactions."""
    made = Workbench(tmp_path, CONFIG)
    for number in range(3):
        made.append_transactional(9, number, 0)
        made.end_transaction(9, number + 1, commit=False)
    at = 0
    while len(made.log.segments) < 3 or made.log.active.size < 500:
        made.append(batch(timestamp=NOW + at))
        at += 1
    made.commit_all()
    made.log.close(NOW)
    return made


def index(bench: Workbench, kind: str, segment: int = 0) -> Path:
    return Path(bench.log.segments[segment].path_of(kind))


def newer_offset(data: bytes) -> bytes:
    return data + OFFSET_ENTRY.pack(5000, 1200)


def newer_position(data: bytes) -> bytes:
    return data + OFFSET_ENTRY.pack(6, 4000)


def newer_time(data: bytes) -> bytes:
    return data + TIME_ENTRY.pack(NOW + 10_000, 5000)


def older_time(data: bytes) -> bytes:
    return data + TIME_ENTRY.pack(NOW - 10_000, 6)


def newer_abort(data: bytes) -> bytes:
    return data + ABORT._replace(last_offset=5000).to_bytes()


def earlier_abort(data: bytes) -> bytes:
    return data + ABORT.to_bytes()


def truncate(data: bytes) -> bytes:
    return data[:-3]


def zeros(data: bytes) -> bytes:
    return bytes(len(data))


def zeros_at_the_end(data: bytes) -> bytes:
    return data[: len(data) // 34 * 17] + bytes(len(data) - len(data) // 34 * 17)


def negative(data: bytes) -> bytes:
    return b"\xff" * len(data)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        *(
            (kind, each)
            for kind in (".index", ".timeindex", ".txnindex")
            for each in (truncate, zeros, negative)
        ),
        (".index", newer_offset),
        (".index", newer_position),
        (".timeindex", newer_time),
        (".timeindex", older_time),
        (".txnindex", newer_abort),
        (".txnindex", earlier_abort),
        (".txnindex", zeros_at_the_end),
    ],
)
def test_a_faulty_index_is_rebuilt(bench: Workbench, kind: str, damage: Damage, clean: bool) -> None:
    path = index(bench, kind)
    before = path.read_bytes()
    assert find_fault(bench.log.segments[0], bench.log.segments[1].base_offset) is None
    path.write_bytes(damage(before))
    fault = find_fault(bench.log.segments[0], bench.log.segments[1].base_offset)
    assert fault is not None
    assert str(path) in fault
    end = bench.log.end_offset
    # After a clean shutdown, or a crash after everything was synced.
    log = bench.reopen(clean=clean, recovery_point=end)
    assert path.read_bytes() == before
    assert log.end_offset == end


@pytest.mark.parametrize("kind", [".index", ".timeindex"])
def test_a_missing_index_is_a_fault(bench: Workbench, kind: str) -> None:
    index(bench, kind).unlink()
    fault = find_fault(bench.log.segments[0], bench.log.segments[1].base_offset)
    assert fault == f"{index(bench, kind)} is missing"


def test_the_last_segment_is_checked_against_its_own_size(bench: Workbench) -> None:
    last = bench.log.segments[-1]
    assert find_fault(last, None) is None
    path = index(bench, ".index", -1)
    path.write_bytes(path.read_bytes() + OFFSET_ENTRY.pack(90, last.size))
    fault = find_fault(last, None)
    assert fault is not None
    assert f"the segment has {last.size} bytes" in fault


@pytest.mark.parametrize("kind", [".index", ".timeindex"])
def test_unsynced_indexes_are_rebuilt(tmp_path: Path, kind: str) -> None:
    """The segment was rolled after a flush, and the power failed before its indexes were synced."""
    bench = Workbench(tmp_path, CONFIG)
    for at in range(15):
        bench.append(batch(timestamp=NOW + at))
    bench.commit_all()
    bench.log.flush(NOW)
    recovery_point = bench.log.recovery_point
    bench.log.roll(bench.log.end_offset, NOW)
    path = index(bench, kind)
    before = path.read_bytes()
    # There are fewer entries than before, but each is correct.
    path.write_bytes(before[: TIME_ENTRY.size * 2])
    log = bench.reopen(clean=False, recovery_point=recovery_point)
    assert path.read_bytes() == before
    assert log.segments[0].largest().timestamp == NOW + 14
    assert str(path) in log.sync_targets().paths


def test_a_flush_syncs_transaction_indexes(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, CONFIG)
    bench.append_transactional(9, 0, 0)
    bench.end_transaction(9, 1, commit=False)
    path = str(index(bench, ".txnindex"))
    running = bench.log.sync_targets()
    assert path in running.paths
    bench.append_transactional(9, 1, 0)
    bench.end_transaction(9, 2, commit=False)
    running.run()
    bench.log.mark_flushed(running, NOW)
    # The index got an entry after the flush started.
    assert path in bench.log.sync_targets().paths
    bench.log.flush(NOW)
    assert path not in bench.log.sync_targets().paths


def test_a_transaction_index_is_compared_with_its_checksum(tmp_path: Path) -> None:
    bench = Workbench(tmp_path)
    for producer_id in (7, 8):
        bench.append_transactional(producer_id, 0, 0)
        bench.end_transaction(producer_id, 1, commit=False)
    bench.log.roll(bench.log.end_offset, bench.clock.ms)
    segment = bench.log.segments[0]
    known = segment.txn_index.checksum()
    assert find_fault(segment, bench.log.end_offset, known) is None
    earlier = TxnIndexChecksum(34, crc32c(bench.content("00000000000000000000.txnindex")[:34]))
    assert find_fault(segment, bench.log.end_offset, earlier) is None, (
        "Apache Kafka has appended to the index"
    )
    other = TxnIndexChecksum(known.size, known.checksum ^ 1)
    assert "does not match its checksum" in (find_fault(segment, bench.log.end_offset, other) or "")
