from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from ruslo.model.errors import CorruptLogError
from ruslo.records.batch import DELETE_HORIZON, TRANSACTIONAL
from ruslo.records.control import ControlType, read_control_type
from ruslo.records.reader import check_crc, read_records
from ruslo.storage.cleaner.cleanable import CleanerLimits, find_cleanable, make_task
from ruslo.storage.cleaner.job import clean, remove_unfinished
from tests.unit.storage.compacting import (
    COMPACTED,
    LIMITS,
    Kept,
    batches_in,
    compact,
    kept_records,
    keyed,
    roll,
)
from tests.unit.storage.workbench import NOW, Workbench, records_from

DAY_MS = 86_400_000


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path, COMPACTED)


def fill(bench: Workbench, batches: int, *, keys: int = 10, codec: int = 0, seed: int = 1) -> list[Kept]:
    """Write random updates and deletes; return the written records."""
    chance = random.Random(seed)
    written: list[Kept] = []
    for _ in range(batches):
        pairs = [
            (
                b"key-%d" % chance.randrange(keys),
                None if chance.random() < 0.1 else chance.randbytes(chance.randrange(40)),
            )
            for _ in range(chance.randint(1, 12))
        ]
        first = bench.append(keyed(pairs, codec=codec)).base_offset
        written += [(first + at, key, value) for at, (key, value) in enumerate(pairs)]
    return written


def last_of_each_key(written: list[Kept]) -> list[Kept]:
    return sorted({key: (offset, key, value) for offset, key, value in written}.values())


@pytest.mark.parametrize("codec", range(5))
def test_the_last_record_of_each_key_stays_at_its_offset(bench: Workbench, codec: int) -> None:
    written = fill(bench, 60, codec=codec)
    roll(bench)
    end, stats = compact(bench) or (0, None)
    assert end == bench.log.end_offset
    assert kept_records(bench.log) == last_of_each_key(written)
    assert stats is not None
    assert (stats.records_before, stats.records_after) == (len(written), len(last_of_each_key(written)))
    assert all(check_crc(batch) for _, batch in batches_in(bench.log))
    assert {header.codec for header, _ in batches_in(bench.log) if header.count} == {codec}


def test_readers_find_every_record_after_compaction_and_after_a_restart(bench: Workbench) -> None:
    written = fill(bench, 80, keys=30)
    roll(bench)
    compact(bench)
    expected = [(offset, value) for offset, _, value in last_of_each_key(written)]
    assert records_from(bench.log) == expected
    for offset, value in expected:
        assert records_from(bench.log, offset)[0] == (offset, value)
    for in_order in (True, False):
        bench.reopen(clean=in_order)
        assert records_from(bench.log) == expected
        assert bench.log.end_offset == len(written)


def test_keys_that_do_not_fit_into_memory_take_several_passes(bench: Workbench) -> None:
    written = fill(bench, 200, keys=400)
    roll(bench)
    _, stats = compact(bench, limits=LIMITS._replace(memory_bytes=4000)) or (0, None)
    assert stats is not None
    assert stats.keys_passes > 3
    assert kept_records(bench.log) == last_of_each_key(written)


def test_a_second_round_compacts_new_records_against_clean_ones(bench: Workbench) -> None:
    written = fill(bench, 40, seed=1)
    roll(bench)
    checkpoint, _ = compact(bench) or (0, None)
    assert checkpoint == len(written)
    written += fill(bench, 40, seed=2)
    roll(bench)
    end, _ = compact(bench, checkpoint) or (0, None)
    assert end == len(written)
    assert kept_records(bench.log) == last_of_each_key(written)


def test_clean_log_is_not_rewritten(bench: Workbench) -> None:
    for number in range(60):
        bench.append(keyed([(b"key-%d" % number, bytes(100))]))
    roll(bench)
    bench.log.configure(replace(COMPACTED, segment_bytes=1000))
    before = {name: (bench.content(name)) for name in bench.names()}
    inodes = {name: Path(bench.path, name).stat().st_ino for name in before}
    compact(bench)
    untouched = [name for name in before if name.endswith(".log") and name in bench.names()]
    assert untouched
    assert all(Path(bench.path, name).stat().st_ino == inodes[name] for name in untouched)


def test_small_adjacent_segments_become_one(bench: Workbench) -> None:
    fill(bench, 120, keys=3)
    roll(bench)
    before = len(bench.log.segments)
    checkpoint, _ = compact(bench) or (0, None)
    bench.append(keyed([(b"key-1", b"new")]))
    roll(bench)
    compact(bench, checkpoint)
    assert before > 10
    assert len(bench.log.segments) == 2
    assert not any(name.endswith((".cleaned", ".swap")) for name in bench.names())


def test_records_without_a_key_are_removed(bench: Workbench) -> None:
    bench.append(keyed([(None, b"lost"), (b"a", b"1"), (None, None)]))
    bench.append(keyed([(None, b"lost too")]))
    bench.append(keyed([(b"b", b"2")]))
    roll(bench)
    compact(bench)
    assert kept_records(bench.log) == [(1, b"a", b"1"), (4, b"b", b"2")]


def test_an_empty_key_is_a_key(bench: Workbench) -> None:
    bench.append(keyed([(b"", b"1"), (b"", b"2")]))
    roll(bench)
    compact(bench)
    assert kept_records(bench.log) == [(1, b"", b"2")]


def test_tombstones_get_a_delete_horizon_and_are_removed_after_it(bench: Workbench) -> None:
    bench.append(keyed([(b"a", b"1"), (b"b", b"2")], timestamp=NOW - 5000))
    bench.append(keyed([(b"a", None), (b"c", b"3")], timestamp=NOW - 1000))
    roll(bench)
    checkpoint, _ = compact(bench) or (0, None)
    assert kept_records(bench.log) == [(1, b"b", b"2"), (2, b"a", None), (3, b"c", b"3")]
    (_, plain), (header, batch) = [each for each in batches_in(bench.log) if each[0].count]
    assert header.attributes & DELETE_HORIZON
    assert header.base_timestamp == NOW + DAY_MS
    assert [record.timestamp for record in read_records(batch)] == [NOW - 1000, NOW - 999]
    assert header.max_timestamp == NOW - 999
    assert [record.timestamp for record in read_records(plain)] == [NOW - 4999]
    for wait_ms, tombstone_there in ((DAY_MS - 1, True), (1, False)):
        bench.clock.ms += wait_ms
        bench.append(keyed([(b"d", b"%d" % wait_ms)]))
        roll(bench)
        checkpoint, _ = compact(bench, checkpoint) or (0, None)
        assert ((2, b"a", None) in kept_records(bench.log)) == tombstone_there
    assert [record[1] for record in kept_records(bench.log)] == [b"b", b"c", b"d"]


def test_the_last_batch_of_an_active_producer_stays_as_a_bare_header(bench: Workbench) -> None:
    for sequence in range(3):
        bench.append(keyed([(b"k", b"%d" % sequence)], producer_id=7, producer_epoch=1, sequence=sequence))
    bench.append(keyed([(b"k", b"of another")]))
    bench.append(keyed([(b"z", b"end")]))
    roll(bench)
    compact(bench)
    headers = [header for header, _ in batches_in(bench.log)]
    assert [(h.base_offset, h.count, h.base_sequence) for h in headers] == [(2, 0, 2), (3, 1, -1), (4, 1, -1)]
    assert (headers[0].base_timestamp, headers[0].producer_epoch) == (-1, 1)
    bench.reopen(clean=False)
    assert bench.log.producers.entries[7].next_sequence == 3


def test_the_last_batch_of_a_round_stays_even_if_empty(bench: Workbench) -> None:
    bench.append(keyed([(b"a", b"1")]))
    bench.append(keyed([(None, b"goes")]))
    roll(bench)
    compact(bench)
    assert [(h.base_offset, h.count) for h, _ in batches_in(bench.log)] == [(0, 1), (1, 0)]


def transaction(bench: Workbench, pairs: list[tuple[bytes, bytes]], epoch: int, *, commit: bool) -> None:
    bench.append(keyed(pairs, producer_id=9, producer_epoch=epoch, sequence=0, attributes=TRANSACTIONAL))
    bench.end_transaction(9, epoch + 1, commit=commit)


def markers(bench: Workbench) -> list[tuple[int, str]]:
    return [
        (header.base_offset, ControlType(read_control_type(next(iter(read_records(batch))).key)).name)
        for header, batch in batches_in(bench.log)
        if header.is_control and header.count
    ]


def test_aborted_records_are_removed_and_do_not_supersede_committed_ones(bench: Workbench) -> None:
    transaction(bench, [(b"a", b"committed"), (b"b", b"committed")], 0, commit=True)
    transaction(bench, [(b"a", b"aborted")], 1, commit=False)
    bench.append(keyed([(b"c", b"plain")]))
    roll(bench)
    compact(bench)
    assert kept_records(bench.log) == [(0, b"a", b"committed"), (1, b"b", b"committed"), (5, b"c", b"plain")]
    assert markers(bench) == [(2, "COMMIT"), (4, "ABORT")]


def test_markers_outlive_their_transactions_by_the_delete_retention(bench: Workbench) -> None:
    transaction(bench, [(b"a", b"aborted")], 0, commit=False)
    transaction(bench, [(b"a", b"1")], 1, commit=True)
    transaction(bench, [(b"a", b"2")], 2, commit=True)
    bench.append(keyed([(b"z", b"end")]))
    roll(bench)
    checkpoint, _ = compact(bench) or (0, None)
    # Each producer still had a batch in this round.
    assert markers(bench) == [(1, "ABORT"), (3, "COMMIT"), (5, "COMMIT")]
    bench.append(keyed([(b"z", b"2")]))
    roll(bench)
    checkpoint, _ = compact(bench, checkpoint) or (0, None)
    horizons = {
        header.base_offset: bool(header.attributes & DELETE_HORIZON)
        for header, _ in batches_in(bench.log)
        if header.is_control
    }
    assert horizons == {1: True, 3: True, 5: False}
    assert len(markers(bench)) == 3
    bench.clock.ms += DAY_MS
    bench.append(keyed([(b"z", b"3")]))
    roll(bench)
    compact(bench, checkpoint)
    assert markers(bench) == [(5, "COMMIT")]
    assert bench.log.producers.entries[9].epoch == 3


def test_the_transaction_index_follows_the_batches(bench: Workbench) -> None:
    """An empty batch of an aborted transaction, and its index entry, stay while it is the producer's last."""
    bench.append(keyed([(b"a", b"x")], producer_id=9, producer_epoch=0, sequence=0, attributes=TRANSACTIONAL))
    bench.end_transaction(9, 0, commit=False, version=1)
    bench.append(keyed([(b"z", b"end")]))
    roll(bench)
    checkpoint, _ = compact(bench) or (0, None)
    assert [(h.base_offset, h.count) for h, _ in batches_in(bench.log)] == [(0, 0), (1, 1), (2, 1)]
    assert [each.first_offset for each in bench.log.aborted_transactions(0, 3)] == [0]
    bench.append(keyed([(b"a", b"y")], producer_id=9, producer_epoch=0, sequence=1, attributes=TRANSACTIONAL))
    bench.end_transaction(9, 0, commit=True, version=1)
    roll(bench)
    checkpoint, _ = compact(bench, checkpoint) or (0, None)
    bench.append(keyed([(b"z", b"2")]))
    roll(bench)
    compact(bench, checkpoint)
    assert bench.log.aborted_transactions(0, bench.log.end_offset) == []
    assert bench.log.segments[0].txn_index.exists is False


def test_nothing_at_or_past_the_last_stable_offset_is_touched(bench: Workbench) -> None:
    bench.append(keyed([(b"a", b"1")]))
    bench.append(
        keyed([(b"a", b"open")], producer_id=9, producer_epoch=0, sequence=0, attributes=TRANSACTIONAL)
    )
    bench.append(keyed([(b"a", b"3")]))
    for _ in range(20):
        bench.append(keyed([(b"filler", bytes(90))]))
    roll(bench)
    assert bench.log.last_stable_offset == 1
    assert find_cleanable(bench.log, None, NOW) is None
    bench.end_transaction(9, 1, commit=True)
    roll(bench)
    compact(bench)
    assert [record[1] for record in kept_records(bench.log)] == [b"a", b"filler"]


def test_transactions_aborted_past_the_end_of_a_round_stay_in_the_index(bench: Workbench) -> None:
    """The segment in which the round ends is rewritten as a whole, with its transaction index."""
    for _ in range(20):
        bench.append(keyed([(b"filler", bytes(90))]))
    roll(bench)
    bench.append(keyed([(b"a", b"1")]))
    open_transaction = {"producer_id": 8, "producer_epoch": 0, "sequence": 0, "attributes": TRANSACTIONAL}
    bench.append(keyed([(b"b", b"open")], **open_transaction))
    transaction(bench, [(b"a", b"aborted")], 0, commit=False)
    roll(bench)
    end, _ = compact(bench) or (0, None)
    assert end == bench.log.last_stable_offset == 21
    bench.end_transaction(8, 1, commit=True)
    bench.commit_all()
    assert (22, b"a", b"aborted") in kept_records(bench.log)
    assert bench.log.aborted_transactions(0, bench.log.end_offset) == [(9, 22, 23, 21)]
    roll(bench)
    compact(bench, end)
    assert [record[2] for record in kept_records(bench.log)] == [bytes(90), b"1", b"open"]


def test_a_batch_across_the_end_of_a_round_is_not_changed(bench: Workbench) -> None:
    """After a roll the recovery point is inside the last batch of the sealed segment."""
    for _ in range(20):
        bench.append(keyed([(b"filler", bytes(90))]))
    roll(bench)
    bench.append(keyed([(b"a", b"1")]))
    pairs = [(b"a", b"aborted"), (b"b", b"aborted")]
    bench.append(keyed(pairs, producer_id=9, producer_epoch=0, sequence=0, attributes=TRANSACTIONAL))
    bench.log.flush(NOW)
    bench.log.roll(bench.log.end_offset, NOW)
    bench.end_transaction(9, 1, commit=False)
    transaction(bench, [(b"c", b"committed")], 1, commit=True)
    bench.commit_all()
    end, _ = compact(bench) or (0, None)
    assert end == bench.log.recovery_point == bench.log.active.base_offset - 1 == 22
    assert [header.last_offset for header, _ in batches_in(bench.log)][-4:] == [22, 23, 24, 25]
    assert bench.reopen(clean=False, recovery_point=end).end_offset == 26


def test_damage_stops_the_round_and_changes_nothing(bench: Workbench) -> None:
    written = fill(bench, 30)
    roll(bench)
    path = Path(bench.log.segments[1].path_of(".log"))
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    found = find_cleanable(bench.log, None, NOW)
    assert found is not None
    with pytest.raises(CorruptLogError, match="fails its checksum"):
        clean(bench.disk, make_task(found, LIMITS, NOW), lambda _: None)
    remove_unfinished(bench.disk, bench.path)
    assert not any(name.endswith(".cleaned") for name in bench.names())
    assert len(written) == bench.log.end_offset


def test_a_throttled_round_is_slower(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("ruslo.storage.cleaner.throttle.time.sleep", slept.append)
    fill(bench, 30)
    roll(bench)
    size = bench.log.size_bytes
    compact(bench, limits=CleanerLimits(1 << 20, 1 << 16, float(size)))
    # Every byte is read twice, and some are written: at this rate it takes more than a second.
    assert sum(slept) > 1.0
