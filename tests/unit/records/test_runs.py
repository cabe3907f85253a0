from __future__ import annotations

import pytest

from ruslo.model.errors import ProtocolError
from ruslo.records.batch import HEADER_SIZE
from ruslo.records.builder import build_batch
from ruslo.records.record import Record
from ruslo.records.runs import Run, RunPace, find_run, read_field, same_bytes, same_width


def body_of(records: list[Record]) -> bytes:
    return bytes(build_batch(records)[HEADER_SIZE:])


def run_at(data: bytes, left: int) -> Run:
    run = find_run(data, 0, len(data), left)
    assert run is not None
    return run


@pytest.mark.parametrize("count", [8, 63, 64, 65, 511, 512, 513, 5000])
def test_a_run_ends_where_the_length_changes(count: int) -> None:
    """From the 64th record on an offset has two bytes, so the key must be shorter for the same length."""
    records = [Record(at, 5, b"k" * (5 - (at >= 64)), b"v") for at in range(count)]
    data = body_of([*records, Record(count, 5, b"another", b"v")])
    run = run_at(data, count + 1)
    assert (run.start, run.records, run.end) == (0, count, len(body_of(records)))


def test_a_run_ends_where_a_timestamp_has_another_size() -> None:
    records = [Record(at, 5 + at, b"key", b"four") for at in range(20)]
    records[12] = Record(12, 5 + 64, b"key", b"thr")
    assert run_at(body_of(records), 20).records == 12


def test_timestamps_of_several_bytes_make_a_run_too() -> None:
    records = [Record(0, 0, b"k", b"v")] + [Record(at, (1 << 40) + at, b"k", b"v") for at in range(1, 30)]
    data = body_of(records)
    run = find_run(data, len(body_of(records[:1])), len(data), 29)
    assert run is not None
    assert (run.records, run.stamp_end - run.stamp_at) == (29, 6)


def test_short_runs_are_ignored() -> None:
    data = body_of([Record(at, 5, b"k", b"v") for at in range(7)])
    assert find_run(data, 0, len(data), 7) is None


def test_a_record_that_exceeds_the_data_raises() -> None:
    data = body_of([Record(0, 5, b"k", b"v")])
    with pytest.raises(ProtocolError, match="exceeds the data"):
        find_run(data, 0, len(data) - 1, 1)


def test_invalid_lengths_raise() -> None:
    for length in (b"\x00", b"\x01", b"\x81\x01", b"\x81\x80\x01", b"\xff\xff\xff\xff\x7f"):
        with pytest.raises(ProtocolError):
            find_run(length + bytes(200), 0, 200, 10)


def test_lengths_of_three_bytes_make_a_run_too() -> None:
    data = body_of([Record(at, 5, b"k%02d" % at, bytes(9000)) for at in range(10)])
    assert run_at(data, 10).records == 10


def test_records_with_the_same_first_byte_only_are_not_a_run() -> None:
    """Their lengths have the same first byte and differ in the second."""
    records = [Record(at, 5, b"k", bytes(100 if at % 2 else 164)) for at in range(20)]
    data = body_of(records)
    assert find_run(data, 0, len(data), 20) is None


def test_columns() -> None:
    data = b"a\x81\x01" * 5 + b"b\x81\x01"
    assert same_bytes(data, range(1), 3, 6) == 5
    assert same_width(data, range(1, 3), 3, 6) == 6
    assert same_width(data[:10] + b"\x01" + data[11:], range(1, 3), 3, 6) == 3
    assert same_width(data[:11] + b"\x81" + data[12:], range(1, 3), 3, 6) == 3


@pytest.mark.parametrize("count", [1, 15, 16, 17, 127, 128, 300])
def test_a_field_of_all_records(count: int) -> None:
    data = b"ab" + b"".join(b"x%03dyz" % at for at in range(count + 1))
    run = Run(start=2, stride=6, records=count + 1, body_at=3, stamp_end=5)
    assert read_field(data, run, count, 1, 3) == [b"%03d" % at for at in range(count)]
    assert read_field(data, run, count, 0, 6) == [b"x%03dyz" % at for at in range(count)]


def test_scan_slows_down_where_there_are_no_runs() -> None:
    pace = RunPace()
    checks = []
    for position in range(1000):
        if position >= pace.next_check:
            checks.append(position)
            pace.note(position, 0)
    assert len(checks) < 20
    pace.note(1000, 50)
    assert pace.next_check == 1050
    pace.note(1050, 0)
    assert pace.next_check == 1051
