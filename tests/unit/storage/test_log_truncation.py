from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.config.log_config import LogConfig
from ruslo.storage.disk import DiskError
from tests.unit.storage.test_disk import no_descriptors
from tests.unit.storage.workbench import NOW, Workbench, batch, headers_in, records_from

SIZE = len(batch(2))


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    """Ten batches of two records in segments of three batches, with base offsets 0, 6, 12 and 18."""
    made = Workbench(tmp_path, LogConfig(segment_bytes=3 * SIZE, index_interval_bytes=SIZE))
    for at in range(10):
        made.append(
            batch(2, producer_id=1, producer_epoch=0, sequence=2 * at, timestamp=NOW + at),
            leader_epoch=at // 4,
        )
    made.commit_all()
    return made


@pytest.mark.parametrize("offset", range(21))
@pytest.mark.parametrize("reopens", [None, "clean", "unclean"])
def test_truncate_to_every_offset(bench: Workbench, offset: int, reopens: str | None) -> None:
    log = bench.log
    assert log.truncate_to(offset) == (offset < 20)
    end = offset - offset % 2
    if reopens:
        log = bench.reopen(clean=reopens == "clean")
    assert log.end_offset == end
    assert log.high_watermark == end
    assert log.recovery_point <= end
    assert headers_in(log) == [(base, base + 1) for base in range(0, end, 2)]
    assert all(start < end for _, start in log.epochs.entries())
    if end:
        assert log.producers.entries[1].next_sequence == end
        assert log.max_timestamp_offset(end) == (end - 2, NOW + end // 2 - 1, (end // 2 - 1) // 4)
        assert log.offset_for_timestamp(NOW + end // 2, end) is None
    else:
        assert len(log.producers) == 0
    next_batch = batch(producer_id=1, producer_epoch=0, sequence=end if end else 0)
    assert bench.append(next_batch, leader_epoch=9).base_offset == end
    assert [found for found, _ in records_from(log)] == list(range(end + 1))


def test_dropped_segments_wait_in_the_trash(bench: Workbench) -> None:
    bench.log.truncate_to(7)
    trash = {name for name in bench.names() if name.endswith(".deleted")}
    assert {name[:20] for name in trash} == {f"{base:020d}" for base in (12, 18)}
    assert not any(name.endswith(".snapshot") and int(name[:20]) > 7 for name in bench.names())
    bench.clock.ms += bench.config.file_delete_delay_ms
    bench.trash.remove_due()
    assert not any(name.endswith(".deleted") for name in bench.names())


def test_the_transaction_index_is_truncated_too(tmp_path: Path) -> None:
    bench = Workbench(tmp_path)
    for epoch in range(3):
        bench.append_transactional(1, epoch, 0)
        bench.end_transaction(1, epoch + 1, commit=False)
    bench.commit_all()
    bench.log.truncate_to(3)
    assert bench.log.aborted_transactions(0, 100) == [(1, 0, 1, 2)]
    # The second transaction lost its marker, so it is open again.
    assert bench.log.last_stable_offset == 2
    assert bench.log.producers.open_transactions() == [(2, 1)]


def test_truncation_below_the_first_segment_deletes_everything(bench: Workbench) -> None:
    bench.log.delete_records_before(13)
    bench.log.delete_old_segments(NOW)
    assert bench.log.segments[0].base_offset == 12
    bench.log.truncate_to(4)
    assert (bench.log.start_offset, bench.log.end_offset) == (4, 4)


def test_truncate_fully(bench: Workbench) -> None:
    bench.log.truncate_fully_and_start_at(100)
    log = bench.log
    assert (log.start_offset, log.end_offset, log.high_watermark, log.recovery_point) == (100, 100, 100, 100)
    assert log.epochs.entries() == []
    assert len(log.producers) == 0
    assert bench.append(batch()).base_offset == 100
    assert bench.reopen().start_offset == 100
    assert [offset for offset, _ in records_from(bench.log, 100)] == [100]


def test_a_truncation_below_the_log_start_offset_lowers_it(bench: Workbench) -> None:
    bench.log.delete_records_before(11)
    bench.log.truncate_to(8)
    assert bench.log.start_offset == bench.log.end_offset == 8


def test_an_epoch_without_records_is_removed_even_if_no_record_is(bench: Workbench) -> None:
    log = bench.log
    end_offset = log.end_offset
    before = log.epochs.entries()
    log.assign_leader_epoch(log.epochs.latest + 3)
    assert log.epochs.entries() != before
    assert not log.truncate_to(end_offset)
    assert (log.end_offset, log.epochs.entries()) == (end_offset, before)


def test_a_truncation_that_fails_halfway_is_fatal(bench: Workbench) -> None:
    """The producer state would still include truncated batches."""
    with no_descriptors(), pytest.raises(DiskError) as failed:
        bench.log.truncate_to(19)
    assert bench.log.end_offset == 18
    assert bench.append(batch(2, producer_id=1, producer_epoch=0, sequence=18)).duplicate
    assert failed.value.fatal
