from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ruslo.config.log_config import LogConfig
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.storage.log import Log
from ruslo.storage.scrub import SegmentScrub
from ruslo.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, Segment
from tests.unit.storage.compacting import COMPACTED, compact, keyed, roll
from tests.unit.storage.workbench import Workbench, batch, records_from

SIZE = len(batch(2))


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    """Four segments of eight batches with two records each, and an active segment."""
    bench = Workbench(tmp_path, LogConfig(segment_bytes=8 * SIZE, index_interval_bytes=SIZE))
    bench.append_many(36, 2)
    bench.commit_all()
    assert len(bench.log.segments) == 5
    return bench


def scrub(log: Log, segment: Segment) -> SegmentScrub:
    found = SegmentScrub(log, segment, None)
    while not found.step(SIZE):
        assert found.bytes_read <= segment.size
    assert found.apply()
    return found


def change(segment: Segment, kind: str, position: int, data: bytes = b"\xff") -> None:
    path = Path(segment.path_of(kind))
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)
    segment.release_files()


def test_valid_log(bench: Workbench) -> None:
    for segment in bench.log.segments:
        found = scrub(bench.log, segment)
        assert (found.damage, found.problems) == ([], [])
        assert found.sound == [(0, segment.size)]
    assert not bench.log.damage


@pytest.mark.parametrize("at", [1, 4])
def test_a_batch_with_a_wrong_checksum_is_not_served(bench: Workbench, at: int) -> None:
    log, segment = bench.log, bench.log.segments[at]
    change(segment, LOG_SUFFIX, 2 * SIZE - 1)
    log.forget_recent_batches()
    before = records_from(log, upper=segment.base_offset + 2)
    scrub(log, segment)
    (damage,) = log.damage.ranges()
    assert (damage.first_offset, damage.end_offset) == (segment.base_offset + 2, segment.base_offset + 4)
    assert "checksum" in damage.problem
    for offset in (damage.first_offset, damage.first_offset + 1):
        with pytest.raises(KafkaError) as raised:
            log.read(offset, 1 << 20, log.end_offset)
        assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
    assert records_from(log, upper=damage.first_offset) == before, "a read before the damage ends there"
    assert log.read(damage.end_offset, 1 << 20, log.end_offset).first_batch_offset == damage.end_offset


def test_repaired_damage_is_removed(bench: Workbench) -> None:
    log, segment = bench.log, bench.log.segments[1]
    original = Path(segment.path_of(LOG_SUFFIX)).read_bytes()
    change(segment, LOG_SUFFIX, 2 * SIZE - 1)
    scrub(log, segment)
    Path(segment.path_of(LOG_SUFFIX)).write_bytes(original)
    segment.release_files()
    scrub(log, segment)
    assert not log.damage


def test_a_base_offset_is_not_covered_by_the_checksum(bench: Workbench) -> None:
    log, segment = bench.log, bench.log.segments[1]
    change(segment, LOG_SUFFIX, 2 * SIZE + 6, b"\x55")
    scrub(log, segment)
    (damage,) = log.damage.ranges()
    assert (damage.first_offset, damage.end_offset) == (segment.base_offset + 4, segment.base_offset + 6)


def test_a_segment_that_lost_its_end(bench: Workbench) -> None:
    log, segment = bench.log, bench.log.segments[1]
    Path(segment.path_of(LOG_SUFFIX)).write_bytes(Path(segment.path_of(LOG_SUFFIX)).read_bytes()[: 6 * SIZE])
    segment.size = 6 * SIZE
    scrub(log, segment)
    (damage,) = log.damage.ranges()
    assert (damage.first_offset, damage.end_offset) == (segment.base_offset + 12, segment.base_offset + 16)


@pytest.mark.parametrize("kind", [INDEX_SUFFIX, TIME_INDEX_SUFFIX])
def test_an_index_is_rebuilt(bench: Workbench, kind: str) -> None:
    segment = bench.log.segments[1]
    original = Path(segment.path_of(kind)).read_bytes()
    change(segment, kind, 3, b"\x7f")
    found = scrub(bench.log, segment)
    assert [kind in problem for problem in found.problems] == [True]
    assert Path(segment.path_of(kind)).read_bytes() == original
    assert scrub(bench.log, segment).problems == []


@pytest.mark.parametrize("damage_file", [lambda data: b"", lambda data: data[:9] + b"\1" + data[10:]])
def test_a_transaction_index_is_rebuilt(tmp_path: Path, damage_file: Callable[[bytes], bytes]) -> None:
    bench = Workbench(tmp_path)
    for producer_id in (7, 8):
        bench.append_transactional(producer_id, 0, 0, 3)
        bench.append(batch())
        bench.end_transaction(producer_id, 1, commit=False)
    bench.commit_all()
    bench.log.roll(bench.log.end_offset, bench.clock.ms)
    segment = bench.log.segments[0]
    aborts = list(segment.txn_index.entries())
    path = Path(segment.path_of(TXN_INDEX_SUFFIX))
    path.write_bytes(damage_file(path.read_bytes()))
    found = scrub(bench.log, segment)
    assert [TXN_INDEX_SUFFIX in problem for problem in found.problems] == [True]
    assert list(segment.txn_index.entries()) == aborts
    assert bench.log.aborted_transactions(0, 99) == aborts


def test_compacted_segments_are_valid(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, COMPACTED)
    for number in range(60):
        bench.append(keyed([(b"k%d" % (number % 7), b"v" * 50)]))
    roll(bench)
    compact(bench)
    for segment in bench.log.segments:
        found = scrub(bench.log, segment)
        assert (found.damage, found.problems) == ([], [])


def test_log_truncated_during_the_scrub_is_not_changed(bench: Workbench) -> None:
    segment = bench.log.segments[1]
    found = SegmentScrub(bench.log, segment, None)
    assert not found.step(SIZE)
    bench.log.truncate_to(20)
    assert not found.is_current
    assert not found.apply()
