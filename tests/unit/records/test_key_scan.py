from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruslo.model.errors import ProtocolError
from ruslo.records.batch import HEADER_SIZE
from ruslo.records.builder import build_batch
from ruslo.records.key_scan import scan_keys
from ruslo.records.reader import read_records
from ruslo.records.record import Record

KEYS = st.none() | st.binary(max_size=3) | st.sampled_from([b"", bytes(63), bytes(64), bytes(9000)])
VALUES = st.none() | st.binary(max_size=4) | st.sampled_from([bytes(100), bytes(8192), bytes(1_100_000)])
DELTAS = st.sampled_from([0, 1, -1, 63, 64, -70, 9000, 1 << 40])
HEADERS = st.sampled_from([(), (("name", b"value"),), (("null", None), ("x", b""))])


def body_of(records: list[Record]) -> bytes:
    return bytes(build_batch(records)[HEADER_SIZE:])


def check(records: list[Record]) -> None:
    keys, tombstones = scan_keys(body_of(records), len(records))
    decoded = list(read_records(build_batch(records)))
    assert keys == [record.key for record in decoded]
    assert tombstones == [at for at, record in enumerate(decoded) if record.value is None]


@given(
    shapes=st.lists(
        st.tuples(
            KEYS, VALUES, HEADERS, st.sampled_from([0, 1, -1, 63, 64, -70, 9000, 1 << 40]), st.integers(1, 90)
        ),
        min_size=1,
        max_size=8,
    )
)
@settings(max_examples=60)
def test_scan_finds_the_same_keys_as_the_reader(
    shapes: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int, int]],
) -> None:
    """Runs of records of one layout between others, across offsets that need one more byte."""
    records: list[Record] = []
    for key, value, headers, delta, repeats in shapes:
        for _ in range(repeats if value is None or len(value) < 1000 else 2):
            records.append(Record(len(records), 1000 + delta, key, value, headers))
    check(records)


@pytest.mark.parametrize("count", [7, 8, 63, 64, 65, 8191, 8192, 8193])
def test_runs_across_offsets_of_different_sizes(count: int) -> None:
    check([Record(at, 5, b"key-%06d" % at, b"value") for at in range(count)])


def test_a_run_ends_where_a_timestamp_or_key_has_another_size() -> None:
    records = [Record(at, 5, b"key-%02d" % at, b"v") for at in range(40)]
    records[20] = records[20]._replace(timestamp=500)  # as long as the others, with a shorter value
    records[20] = records[20]._replace(value=b"")
    records[30] = records[30]._replace(key=b"key-300", value=b"")
    check(records)


@given(data=st.binary(max_size=200), count=st.integers(0, 20))
def test_any_bytes_give_keys_or_a_protocol_error(data: bytes, count: int) -> None:
    try:
        keys, _ = scan_keys(data, count)
    except ProtocolError:
        return
    assert len(keys) == count


@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_never_reads_past_the_end(at: int, bit: int) -> None:
    data = bytearray(body_of([Record(n, n, b"k%d" % n, b"v" * n) for n in range(60)]))
    data[at % len(data)] ^= 1 << bit
    try:
        keys, _ = scan_keys(bytes(data), 60)
    except ProtocolError:
        return
    assert len(keys) == 60


def test_a_wrong_count_raises() -> None:
    body = body_of([Record(0, 0, b"k", b"v"), Record(1, 0, b"k", b"v")])
    for count in (1, 3):
        with pytest.raises(ProtocolError, match="records, found"):
            scan_keys(body, count)
