from __future__ import annotations

import pytest
from crc32c import crc32c
from hypothesis import given

from ruslo.records import batch as layout
from ruslo.records.batch import BatchHeader, read_header
from ruslo.records.builder import build_batch, rebuild_batch
from ruslo.records.compression import Codec
from ruslo.records.reader import check_crc, read_records
from ruslo.records.record import Record
from tests.unit.records.examples import KEYED, NOW, RECORDS, record_lists


def test_golden_bytes() -> None:
    batch = build_batch(
        [Record(0, 1000, b"k", b"v", (("h", None),)), Record(1, 1001, None, b"")],
        base_offset=7,
        producer_id=9,
        producer_epoch=2,
        base_sequence=5,
        leader_epoch=3,
        attributes=layout.TRANSACTIONAL,
    )
    records = bytes.fromhex("16 00 00 00 02 6b 02 76 02 02 68 010c 00 02 02 01 00 00")
    covered = (
        bytes.fromhex(
            "0010 00000001 00000000000003e8 00000000000003e9 0000000000000009 0002 00000005 00000002"
        )
        + records
    )
    assert batch == (
        bytes.fromhex("0000000000000007 00000044 00000003 02") + crc32c(covered).to_bytes(4, "big") + covered
    )


@pytest.mark.parametrize("codec", Codec)
@given(records=record_lists())
def test_built_batches_can_be_read(codec: Codec, records: list[Record]) -> None:
    batch = build_batch(records, codec=codec, base_offset=1000)
    assert check_crc(batch)
    assert list(read_records(batch)) == [record._replace(offset=record.offset + 1000) for record in records]
    header = read_header(batch)
    assert header.size == len(batch)
    assert header.count == len(records)
    assert header.last_offset == 1000 + len(records) - 1
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert header.codec == codec


def test_defaults_are_a_plain_producer_s() -> None:
    header = read_header(build_batch(iter(KEYED)))
    assert header._replace(length=0, crc=0) == BatchHeader(
        0, 0, -1, 2, 0, 0, len(KEYED) - 1, NOW, KEYED[-1].timestamp, -1, -1, -1, len(KEYED)
    )


def test_header_keys_that_are_not_utf8_survive() -> None:
    batch = build_batch([Record(0, NOW, None, None, (("h\udcff", b"x"),))])
    assert b"h\xff" in batch
    assert next(read_records(batch)).headers == (("h\udcff", b"x"),)


@pytest.mark.parametrize("offsets", [[1], [0, 2], [0, 0], [100, 101]])
def test_offsets_of_a_new_batch_count_from_zero(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="rebuild_batch"):
        build_batch([Record(offset, NOW, b"k", b"v") for offset in offsets])


def test_an_empty_batch_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        build_batch([])


def test_the_attributes_must_not_have_a_codec() -> None:
    with pytest.raises(ValueError, match="codec="):
        build_batch(KEYED, attributes=Codec.GZIP)


class TestRebuild:
    def original(self, codec: int = 0, attributes: int = 0) -> tuple[BatchHeader, list[Record]]:
        batch = build_batch(
            RECORDS,
            base_offset=500,
            codec=codec,
            producer_id=9,
            producer_epoch=2,
            base_sequence=5,
            leader_epoch=3,
            attributes=attributes,
        )
        return read_header(batch), list(read_records(batch))

    @pytest.mark.parametrize("codec", Codec)
    def test_all_records_rebuild_the_same_batch(self, codec: Codec) -> None:
        header, records = self.original(codec, layout.TRANSACTIONAL)
        rebuilt = rebuild_batch(header, records)
        assert read_header(rebuilt) == header
        assert list(read_records(rebuilt)) == records

    def test_offsets_and_producer_state_stay_when_records_are_removed(self) -> None:
        header, records = self.original()
        rebuilt = rebuild_batch(header, records[1:3])
        kept = read_header(rebuilt)
        assert check_crc(rebuilt)
        assert list(read_records(rebuilt)) == records[1:3]
        assert (kept.base_offset, kept.last_offset, kept.count) == (500, 503, 2)
        assert (kept.producer_id, kept.producer_epoch, kept.base_sequence, kept.leader_epoch) == (9, 2, 5, 3)
        assert (kept.base_timestamp, kept.max_timestamp) == (records[1].timestamp, records[1].timestamp)

    def test_without_records_only_the_header_remains(self) -> None:
        header, _ = self.original(Codec.ZSTD, layout.TRANSACTIONAL | layout.DELETE_HORIZON)
        rebuilt = rebuild_batch(header, [])
        kept = read_header(rebuilt)
        assert len(rebuilt) == layout.HEADER_SIZE
        assert check_crc(rebuilt)
        assert list(read_records(rebuilt)) == []
        assert kept.attributes == layout.TRANSACTIONAL
        assert (kept.base_timestamp, kept.max_timestamp, kept.count) == (-1, header.max_timestamp, 0)
        assert kept.last_offset == header.last_offset

    def test_a_delete_horizon_moves_the_base_timestamp_only(self) -> None:
        header, records = self.original(Codec.LZ4)
        marked = rebuild_batch(header, records, delete_horizon_ms=NOW + 86_400_000)
        kept = read_header(marked)
        assert kept.attributes == Codec.LZ4 | layout.DELETE_HORIZON
        assert kept.base_timestamp == NOW + 86_400_000
        assert kept.max_timestamp == header.max_timestamp
        assert list(read_records(marked)) == records
        again = read_header(rebuild_batch(kept, records[:1]))
        assert again.base_timestamp == NOW + 86_400_000
        assert again.attributes & layout.DELETE_HORIZON

    def test_log_append_time_stays_the_broker_s(self) -> None:
        batch = build_batch(KEYED, attributes=layout.LOG_APPEND_TIME)
        rebuilt = rebuild_batch(read_header(batch), list(read_records(batch))[:1])
        assert read_header(rebuilt).max_timestamp == KEYED[-1].timestamp
        assert next(read_records(rebuilt)).timestamp == KEYED[-1].timestamp

    @pytest.mark.parametrize("offset", [0, 499, 504])
    def test_offsets_outside_the_batch_raise(self, offset: int) -> None:
        header, records = self.original()
        with pytest.raises(ValueError, match="outside the batch"):
            rebuild_batch(header, [records[0]._replace(offset=offset)])
