"""The compiled decoder compared with ``ruslo.records.reader``."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruslo.model.errors import ProtocolError
from ruslo.pipeline.decode.batch_table import scan_batches
from ruslo.pipeline.decode.rows import Rows, decode_rows
from ruslo.records import batch as layout
from ruslo.records.builder import build_batch, rebuild_batch, set_crc
from ruslo.records.compression import Codec
from ruslo.records.reader import read_records
from ruslo.records.record import Record
from tests.unit.records.examples import KEYED, NOW, RECORDS, changed, payload_of, record_lists, with_payload


def records_of(rows: Rows) -> list[Record]:
    return [
        Record(
            int(rows.offsets[at]), int(rows.timestamps[at]), rows.key(at), rows.value(at), rows.headers(at)
        )
        for at in range(len(rows))
    ]


def decoded(data: bytes | bytearray, *bounds: int) -> list[Record]:
    return [record for rows in decode_rows(scan_batches(data), *bounds) for record in records_of(rows)]


class TestValidBatches:
    @given(st.lists(record_lists(), min_size=1, max_size=4), st.sampled_from(list(Codec)), st.booleans())
    @settings(max_examples=60)
    def test_the_same_records_as_the_reader(
        self, lists: list[list[Record]], codec: Codec, append_time: bool
    ) -> None:
        data = bytearray()
        expected: list[Record] = []
        for records in lists:
            attributes = layout.LOG_APPEND_TIME if append_time else 0
            batch = build_batch(records, base_offset=len(expected), codec=codec, attributes=attributes)
            expected += read_records(batch)
            data += batch
        assert decoded(data) == expected

    def test_batches_of_all_codecs_side_by_side(self) -> None:
        data = b"".join(
            bytes(build_batch(KEYED, base_offset=10 * number, codec=codec))
            for number, codec in enumerate(Codec)
        )
        assert [record.offset for record in decoded(data)] == [
            10 * number + at for number in range(5) for at in range(5)
        ]

    def test_only_offsets_of_the_range(self) -> None:
        data = build_batch(KEYED, base_offset=10) + build_batch(KEYED, base_offset=15)
        assert [record.offset for record in decoded(data, 12, 17)] == [12, 13, 14, 15, 16]

    def test_gaps_of_a_compacted_batch(self) -> None:
        header = layout.read_header(build_batch(KEYED, base_offset=10))
        kept = [Record(11, NOW, b"k1", b"v"), Record(14, NOW, b"k4", b"vvvv")]
        assert [record.offset for record in decoded(rebuild_batch(header, kept))] == [11, 14]
        assert decoded(rebuild_batch(header, [])) == []

    def test_rows_with_log_append_time(self) -> None:
        data = build_batch(KEYED) + build_batch(KEYED, base_offset=5, attributes=layout.LOG_APPEND_TIME)
        (rows,) = decode_rows(scan_batches(data))
        assert rows.append_time.tolist() == [False] * 5 + [True] * 5

    def test_decompressed_batches_are_walked_in_groups(self) -> None:
        large = [Record(at, NOW, None, bytes(3_000_000)) for at in range(2)]
        data = b"".join(bytes(build_batch(large, base_offset=2 * n, codec=Codec.ZSTD)) for n in range(4))
        groups = [rows.offsets.tolist() for rows in decode_rows(scan_batches(data))]
        assert groups == [[0, 1, 2, 3], [4, 5, 6, 7]]


class TestHostileBytes:
    """For any bytes the walk ends, stays inside its buffer, and agrees with the reader."""

    def agree(self, batch: bytearray) -> None:
        set_crc(batch)
        try:
            expected: list[Record] | None = list(read_records(batch))
        except ProtocolError:
            expected = None
        if expected is None:
            with pytest.raises(ProtocolError):
                decoded(batch)
        else:
            assert decoded(batch) == expected

    @given(st.binary(max_size=300), st.integers(-(2**31), 2**31 - 1), st.sampled_from([0, 8]))
    @settings(max_examples=300)
    def test_random_payloads(self, payload: bytes, count: int, attributes: int) -> None:
        batch = with_payload(payload, count=1, attributes=attributes)
        self.agree(changed(batch, ">i", layout.COUNT_AT, count))

    @given(st.binary(max_size=200), st.sampled_from(list(Codec)[1:]))
    @settings(max_examples=100)
    def test_random_compressed_payloads(self, payload: bytes, codec: Codec) -> None:
        self.agree(with_payload(payload, count=2, attributes=codec))

    @given(record_lists(), st.data())
    @settings(max_examples=300)
    def test_valid_records_with_changed_bytes(self, records: list[Record], data: st.DataObject) -> None:
        payload = bytearray(payload_of(records))
        for _ in range(data.draw(st.integers(1, 3))):
            payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
        self.agree(with_payload(bytes(payload), count=len(records)))

    @given(record_lists(), st.integers(0, 400))
    def test_truncated_records(self, records: list[Record], size: int) -> None:
        payload = payload_of(records)
        self.agree(with_payload(payload[: size % len(payload)], count=len(records)))

    def test_every_single_bit_flipped(self) -> None:
        payload = payload_of(RECORDS)
        for at in range(len(payload)):
            for bit in range(8):
                damaged = bytearray(payload)
                damaged[at] ^= 1 << bit
                self.agree(with_payload(bytes(damaged), count=len(RECORDS)))

    def test_numbers_longer_than_their_type(self) -> None:
        record = payload_of([Record(0, NOW, b"k", b"v")])
        for noise in (b"\xff" * 5 + b"\x0f", b"\xff" * 10 + b"\x01", b"\x80" * 9 + b"\x02", b"\xff" * 40):
            self.agree(with_payload(noise + record, count=1))
            self.agree(with_payload(record[:2] + noise + record[3:], count=1))

    def test_timestamps_and_offsets_that_overflow(self) -> None:
        later = build_batch([Record(0, NOW, None, b""), Record(1, NOW + 2**40, None, b"")])
        self.agree(changed(later, ">q", layout.BASE_TIMESTAMP_AT, 2**63 - 10))
        earlier = build_batch([Record(0, 2**40, None, b""), Record(1, 0, None, b"")])
        self.agree(changed(earlier, ">q", layout.BASE_TIMESTAMP_AT, -(2**63) + 10))

    def test_random_bytes_in_header_and_records(self) -> None:
        seed = random.Random(4)
        valid = bytes(build_batch(RECORDS) + build_batch(KEYED, base_offset=4, codec=Codec.LZ4))
        for _ in range(3000):
            damaged = bytearray(valid)
            for _ in range(seed.randint(1, 6)):
                damaged[seed.randrange(len(damaged))] = seed.randrange(256)
            try:
                decoded(damaged)
            except ProtocolError:
                continue

    def test_an_invalid_record_count_allocates_no_memory(self) -> None:
        batch = changed(build_batch(KEYED), ">i", layout.COUNT_AT, 2**31 - 1)
        with pytest.raises(ProtocolError, match="ends in the middle of record"):
            decoded(batch)
