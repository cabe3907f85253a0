from __future__ import annotations

import os
from pathlib import Path

import pytest

from ruslo.config.log_config import LogConfig
from ruslo.testing.simulation.nodes.committed_log import (
    LAST_OF_KEY_KEPT,
    NO_GAPS,
    CommittedLog,
    Retention,
    batches_of,
)
from ruslo.testing.simulation.nodes.keyed_records import KeyedRecords
from tests.unit.storage.compacting import COMPACTED, compact, keyed, roll
from tests.unit.storage.workbench import NOW, Workbench, batch

SIZE = len(batch())


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    """Segments of two records each, eight records in total."""
    bench = Workbench(tmp_path, LogConfig(segment_bytes=2 * SIZE))
    bench.append_many(8)
    bench.commit_all()
    return bench


def committed_of(bench: Workbench, committed: CommittedLog) -> CommittedLog:
    for each, header, content in batches_of(bench.log, 0, bench.log.end_offset):
        committed.extend(each, header, content, 0)
    return committed


def test_complete_copy(bench: Workbench) -> None:
    committed = committed_of(bench, CommittedLog())
    assert committed.difference(bench.log, 0, 8) is None
    assert committed.difference(bench.log, 3, 6) is None
    assert committed.first_gap(bench.log, 0) is None


def test_missing_records(bench: Workbench) -> None:
    committed = committed_of(bench, CommittedLog())
    os.truncate(bench.log.segments[1].path_of(".log"), SIZE)
    bench.compacted_at_most = 8  # This hides the damage from recovery.
    log = bench.reopen(clean=False)
    difference = committed.difference(log, 0, 8)
    assert difference is not None
    assert difference.broken == NO_GAPS
    assert committed.first_gap(log, 0) == "3 to 3"
    committed.deleted_below = 4
    assert committed.difference(log, 0, 8) is None
    assert committed.first_gap(log, 0) is None


def test_different_record(bench: Workbench) -> None:
    committed = committed_of(bench, CommittedLog())
    bench.log.truncate_to(5)
    bench.append_many(3, 1)
    assert committed.difference(bench.log, 0, 8) is None
    bench.log.truncate_to(5)
    bench.append(batch(value=b"w"))
    difference = committed.difference(bench.log, 0, 6)
    assert difference is not None
    assert difference.broken is None


def test_records_that_may_be_deleted(bench: Workbench) -> None:
    committed = committed_of(bench, CommittedLog())
    log = bench.log
    assert committed.may_start_at(0, log, NOW)
    assert not committed.may_start_at(2, log, NOW)
    retention = committed.retention = Retention(bytes=9 * SIZE)
    assert not committed.may_start_at(2, log, NOW)
    retention.bytes = 8 * SIZE
    assert committed.may_start_at(2, log, NOW)
    assert not committed.may_start_at(9, log, NOW)
    committed.retention = Retention(ms=100)
    assert not committed.may_start_at(2, log, NOW + 100)
    assert committed.may_start_at(2, log, NOW + 101)
    committed.retention = Retention(requested_offset=3)
    assert committed.may_start_at(3, log, NOW)
    assert not committed.may_start_at(4, log, NOW)
    committed.deleted_below = 4
    assert committed.may_start_at(4, log, NOW)


def test_a_compacted_copy(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, COMPACTED)
    for value in range(40):
        bench.append(keyed([(b"%d" % (value % 3), b"%d" % value), (b"once %d" % value, b"x")]))
    roll(bench)
    committed = committed_of(bench, CommittedLog(keyed=KeyedRecords()))
    assert compact(bench) is not None
    end = bench.log.end_offset
    assert committed.difference(bench.log, 0, end) is None
    assert committed.first_gap(bench.log, 0) is None
    bench.log.truncate_to(end - 2)
    bench.append(keyed([(b"0", b"other"), (b"1", b"other")]))
    changed = committed.difference(bench.log, 0, end)
    assert changed is not None
    assert changed.broken is None
    bench.log.truncate_to(end - 2)
    missing = committed.difference(bench.log, 0, end)
    assert missing is not None
    assert missing.broken == LAST_OF_KEY_KEPT
