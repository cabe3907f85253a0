from __future__ import annotations

import contextlib
import random

import pytest

from ruslo.model.errors import ProtocolError
from ruslo.records import batch as layout
from ruslo.records.builder import build_batch
from ruslo.records.compression import Codec, DecompressedTooLargeError, compress
from ruslo.records.reader import check_crc, iter_batches, read_records
from ruslo.records.record import Record
from tests.unit.records.examples import KEYED, NOW, RECORDS, changed, payload_of, with_payload


class TestIterBatches:
    def test_positions_and_headers(self) -> None:
        first = build_batch(RECORDS, base_offset=10, codec=Codec.GZIP)
        second = build_batch(KEYED, base_offset=14)
        found = list(iter_batches(memoryview(first + second)))
        assert [pos for pos, _ in found] == [0, len(first)]
        assert [header.base_offset for _, header in found] == [10, 14]

    def test_a_partial_last_batch_is_ignored(self) -> None:
        first = build_batch(RECORDS)
        second = build_batch(KEYED)
        for size in range(len(second)):
            assert len(list(iter_batches(first + second[:size]))) == 1

    def test_iteration_may_start_in_the_middle(self) -> None:
        first = build_batch(RECORDS)
        second = build_batch(KEYED, base_offset=4)
        assert [header.base_offset for _, header in iter_batches(first + second, len(first))] == [4]

    @pytest.mark.parametrize("length", [-(2**31), -12, 0, 48])
    def test_a_length_below_the_header_s(self, length: int) -> None:
        batch = changed(build_batch(RECORDS, base_offset=77), ">i", layout.LENGTH_AT, length)
        with pytest.raises(ProtocolError, match=r"offset 77.*header alone"):
            list(iter_batches(batch))

    @pytest.mark.parametrize("magic", [0, 1, 3, -1])
    def test_other_formats(self, magic: int) -> None:
        batch = changed(build_batch(RECORDS), ">b", layout.MAGIC_AT, magic)
        with pytest.raises(ProtocolError, match="magic"):
            list(iter_batches(batch))


class TestCheckCrc:
    def test_every_covered_byte_counts(self) -> None:
        batch = build_batch(KEYED)
        for at in range(layout.ATTRIBUTES_AT, len(batch)):
            batch[at] ^= 0x10
            assert not check_crc(batch)
            batch[at] ^= 0x10
        assert check_crc(batch)

    def test_offset_and_leader_epoch_are_not_covered(self) -> None:
        batch = build_batch(KEYED)
        batch[0:8] = b"\x01" * 8
        batch[12:16] = b"\x02" * 4
        assert check_crc(batch)

    def test_bytes_after_the_batch_are_ignored(self) -> None:
        assert check_crc(build_batch(KEYED) + b"more")

    @pytest.mark.parametrize("size", [0, 60, 61, 80])
    def test_truncated_batches(self, size: int) -> None:
        assert not check_crc(build_batch(KEYED)[:size])

    def test_invalid_length(self) -> None:
        batch = build_batch(KEYED)
        batch[layout.LENGTH_AT : layout.LENGTH_AT + 4] = b"\xff\xff\xff\xff"
        assert not check_crc(batch)


class TestReadRecords:
    def test_log_append_time_is_every_record_s_time(self) -> None:
        batch = build_batch(RECORDS, attributes=layout.LOG_APPEND_TIME)
        changed(batch, ">q", layout.MAX_TIMESTAMP_AT, NOW + 12345)
        assert {record.timestamp for record in read_records(batch)} == {NOW + 12345}

    def test_a_batch_without_records(self) -> None:
        batch = with_payload(b"", count=1)
        assert list(read_records(changed(batch, ">i", layout.COUNT_AT, 0))) == []

    def test_a_batch_without_records_but_with_bytes(self) -> None:
        batch = changed(with_payload(b"\x00", count=1), ">i", layout.COUNT_AT, 0)
        with pytest.raises(ProtocolError, match="1 bytes follow"):
            list(read_records(batch))

    def test_the_record_s_attributes_byte_has_no_meaning(self) -> None:
        payload = bytearray(payload_of(KEYED[:1]))
        payload[1] = 0xFF
        assert list(read_records(with_payload(bytes(payload), count=1))) == KEYED[:1]

    def test_bytes_after_the_batch_are_not_read(self) -> None:
        assert list(read_records(build_batch(KEYED) + b"\xff" * 20)) == KEYED

    @pytest.mark.parametrize("codec", Codec)
    def test_bytes_after_the_last_record(self, codec: Codec) -> None:
        payload = compress(codec, payload_of(KEYED[:2]) + b"\x00")
        with pytest.raises(ProtocolError, match="1 bytes follow the last of 2 records"):
            list(read_records(with_payload(payload, count=2, attributes=codec)))

    @pytest.mark.parametrize("codec", Codec)
    def test_fewer_records_than_the_count(self, codec: Codec) -> None:
        payload = compress(codec, payload_of(KEYED[:2]))
        with pytest.raises(ProtocolError, match="in the middle of record 2 of 3"):
            list(read_records(with_payload(payload, count=3, attributes=codec)))

    def test_a_negative_count(self) -> None:
        with pytest.raises(ProtocolError, match="claims -1 records"):
            list(read_records(changed(build_batch(KEYED), ">i", layout.COUNT_AT, -1)))

    @pytest.mark.parametrize(
        ("record", "complaint"),
        [
            ("7e 00 00 00 01 01 00", "claims 63 bytes"),
            ("01", "claims -1 bytes"),
            ("0c 00 00 00 0a 6b 00", "ends? at byte|in the middle of|its length says"),
            ("0e 00 00 00 01 01 00 00", "its fields end at byte 7"),
            ("0a 00 00 00 01 01 00", "its fields end at byte 7"),
            ("0c 00 00 01 01 01 00", "its offset would be -1"),
            ("0c 00 00 00 01 01 01", "claims -1 headers"),
            ("0c 00 00 00 01 01 7e", "claims 63 headers"),
            ("10 00 00 00 01 01 02 01 01", "key of a header is null"),
            ("80 80 80 80 80 01", "more than 32 bits"),
            ("1e 00 ff ff ff ff ff ff ff ff ff 01 00 01 01 00", "timestamp does not fit"),
        ],
    )
    def test_malformed_records(self, record: str, complaint: str) -> None:
        raw = bytes.fromhex(record)
        batch = with_payload(raw, count=1)
        if "timestamp" in complaint:
            changed(batch, ">q", layout.BASE_TIMESTAMP_AT, -(2**63) + 5)
        with pytest.raises(ProtocolError, match=f"offset 0.*({complaint})"):
            list(read_records(batch))

    def test_a_partial_batch(self) -> None:
        batch = build_batch(KEYED)
        for end in range(len(batch)):
            with pytest.raises(ProtocolError):
                list(read_records(batch[:end]))

    def test_other_formats(self) -> None:
        with pytest.raises(ProtocolError, match="magic 1"):
            list(read_records(changed(build_batch(KEYED), ">b", layout.MAGIC_AT, 1)))

    @pytest.mark.parametrize("codec", [5, 6, 7])
    def test_codecs_that_do_not_exist(self, codec: int) -> None:
        with pytest.raises(ProtocolError, match=f"offset 0 cannot be decompressed: codec {codec}"):
            list(read_records(with_payload(b"x", count=1, attributes=codec)))

    def test_the_limit_of_the_caller(self) -> None:
        batch = build_batch([Record(0, NOW, None, bytes(100_000))], codec=Codec.ZSTD)
        assert len(list(read_records(batch, 100_100))) == 1
        with pytest.raises(DecompressedTooLargeError, match="the batch at offset 0"):
            list(read_records(batch, 99_000))


@pytest.mark.parametrize("codec", Codec)
def test_mutated_batches_raise_only_protocol_errors(codec: Codec) -> None:
    rng = random.Random(100 + codec)
    original = build_batch(RECORDS, codec=codec)
    for _ in range(1500):
        batch = bytearray(original)
        for _ in range(rng.randint(1, 6)):
            batch[rng.randrange(len(batch))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        if rng.random() < 0.2:
            del batch[rng.randrange(len(batch)) :]
        check_crc(batch)
        with contextlib.suppress(ProtocolError):
            for pos, _ in iter_batches(batch):
                assert all(record.offset >= 0 for record in read_records(memoryview(batch)[pos:], 1 << 20))
        with contextlib.suppress(ProtocolError):
            list(read_records(batch, 1 << 20))


def test_random_records_raise_only_protocol_errors() -> None:
    rng = random.Random(7)
    alphabet = bytes([0, 1, 2, 3, 4, 8, 12, 0x7F, 0x80, 0xFF])
    for _ in range(3000):
        payload = bytes(rng.choice(alphabet) for _ in range(rng.randint(0, 30)))
        batch = with_payload(payload, count=rng.randint(1, 3))
        with contextlib.suppress(ProtocolError):
            list(read_records(batch))
