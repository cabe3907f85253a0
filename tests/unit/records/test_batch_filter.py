from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruslo.model.errors import ProtocolError
from ruslo.records.batch import (
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
)
from ruslo.records.batch_filter import filter_batch
from ruslo.records.builder import build_batch, set_crc
from ruslo.records.compression import decompress
from ruslo.records.reader import check_crc, read_records
from ruslo.records.record import Record

NOW = 1_700_000_000_000


def decompressed(batch: bytearray) -> tuple[BatchHeader, bytes]:
    header = read_header(batch)
    return header, decompress(header.codec, bytes(batch[HEADER_SIZE:]))


RECORDS = st.tuples(
    st.integers(-100, 20_000),
    st.binary(max_size=5),
    st.none() | st.binary(max_size=200),
    st.booleans(),
)
RUNS = st.tuples(
    st.sampled_from([1, 7, 8, 15, 40, 300]),
    st.sampled_from([0, 1, 2, 9, 400]),
    st.sampled_from([0, 60, 20_000]),
    st.sampled_from([1, 7, 20, 1000]),
    st.booleans(),
    st.binary(max_size=4) | st.just(bytes(600)),
).map(
    lambda shape: [
        (
            shape[2] + at // shape[3],
            b"%03d" % at,
            None if shape[4] else shape[5],
            at % (shape[1] + 1) == shape[1],
        )
        for at in range(shape[0])
    ]
)
"""Records of one layout, some with the same timestamp, whose timestamps become wider in the middle."""


@given(
    records=st.lists(RECORDS, min_size=1, max_size=30)
    | st.lists(RUNS | st.lists(RECORDS, min_size=1, max_size=3), min_size=1, max_size=6).map(
        lambda parts: [record for part in parts for record in part]
    ),
    codec=st.integers(0, 4),
    horizon=st.none() | st.just(NOW + 86_400_000),
)
def test_kept_records_are_unchanged(
    records: list[tuple[int, bytes, bytes | None, bool]], codec: int, horizon: int | None
) -> None:
    batch = build_batch(
        [Record(at, NOW + ts, key, value, (("h", key),)) for at, (ts, key, value, _) in enumerate(records)],
        base_offset=500,
        codec=codec,
        producer_id=7,
        producer_epoch=3,
        base_sequence=11,
        leader_epoch=2,
        attributes=TRANSACTIONAL,
    )
    keep = bytes([wanted for *_, wanted in records])
    if not any(keep):
        keep = b"\x01" + keep[1:]
    header, body = decompressed(batch)
    made = filter_batch(header, body, keep, delete_horizon_ms=horizon)
    assert check_crc(made)
    expected = [record for record, wanted in zip(read_records(batch), keep, strict=True) if wanted]
    assert list(read_records(made)) == expected
    changed = read_header(made)
    assert changed._replace(length=0, crc=0, count=0, attributes=0, base_timestamp=0, max_timestamp=0) == (
        header._replace(length=0, crc=0, count=0, attributes=0, base_timestamp=0, max_timestamp=0)
    )
    assert changed.count == len(expected)
    assert changed.max_timestamp == max(record.timestamp for record in expected)
    if horizon is None:
        assert (changed.attributes, changed.base_timestamp) == (header.attributes, header.base_timestamp)
    else:
        assert changed.attributes == header.attributes | DELETE_HORIZON
        assert changed.base_timestamp == horizon


@pytest.mark.parametrize("horizon", [None, NOW + 86_400_000])
@pytest.mark.parametrize("size", [10, 1000])
@pytest.mark.parametrize("share", [1, 2, 50, 999])
@pytest.mark.parametrize("per_moment", [1, 30, 700])
def test_long_runs_with_many_and_few_kept_records(
    horizon: int | None, size: int, share: int, per_moment: int
) -> None:
    """Offsets and timestamps become wider at 64; the batch is between others."""
    batch = build_batch(
        [
            Record(at, NOW + at // per_moment, b"key-%04d" % at, None if at == 500 else bytes(size))
            for at in range(1000)
        ]
    )
    keep = bytes(at % share == 0 for at in range(1000))
    made = filter_batch(
        read_header(batch),
        b"before" + bytes(batch[HEADER_SIZE:]) + b"behind",
        keep,
        begin=6,
        end=6 + len(batch) - HEADER_SIZE,
        delete_horizon_ms=horizon,
    )
    assert check_crc(made)
    assert list(read_records(made)) == [
        r for r, expected in zip(read_records(batch), keep, strict=True) if expected
    ]
    assert read_header(made).max_timestamp == NOW + (999 // share) * share // per_moment


def test_the_log_append_time_stays() -> None:
    batch = build_batch(
        [Record(0, NOW, b"a", b"1"), Record(1, NOW - 9, b"b", b"2")], attributes=LOG_APPEND_TIME
    )
    header, body = decompressed(batch)
    made = filter_batch(header._replace(max_timestamp=NOW + 50), body, b"\x00\x01")
    assert read_header(made).max_timestamp == NOW + 50


def test_an_existing_delete_horizon_stays() -> None:
    batch = build_batch([Record(0, NOW, b"a", None), Record(1, NOW, b"b", None)])
    first = filter_batch(*decompressed(batch), b"\x01\x01", delete_horizon_ms=NOW + 5)
    second = filter_batch(*decompressed(first), b"\x00\x01")
    assert read_header(second).base_timestamp == NOW + 5
    assert read_header(second).attributes & DELETE_HORIZON
    assert [(record.offset, record.timestamp) for record in read_records(second)] == [(1, NOW)]


def test_truncated_records_raise() -> None:
    batch = build_batch([Record(0, NOW, b"a", b"1"), Record(1, NOW, b"b", b"2")])
    set_crc(batch)
    header, body = decompressed(batch)
    with pytest.raises(ProtocolError, match="in the middle of a record"):
        filter_batch(header, body[:9], b"\x01\x01")


@pytest.mark.parametrize("horizon", [None, NOW])
def test_records_that_do_not_end_with_their_batch_raise(horizon: int | None) -> None:
    batch = build_batch([Record(at, NOW, b"a", b"1") for at in range(20)])
    header, body = decompressed(batch)
    for end in (len(body) - 11, len(body) - 1, len(body) + 1):
        with pytest.raises(ProtocolError):
            filter_batch(header, body + body, bytes([1] * 20), end=end, delete_horizon_ms=horizon)
