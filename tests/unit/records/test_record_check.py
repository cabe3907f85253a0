from __future__ import annotations

import dataclasses

import pytest

from ruslo.config.log_config import LogConfig
from ruslo.model.errors import ErrorCode
from ruslo.records import batch as layout
from ruslo.records.batch import read_header
from ruslo.records.builder import build_batch
from ruslo.records.compression import Codec, compress
from ruslo.records.header_check import check_batch
from ruslo.records.reader import check_crc, read_records
from ruslo.records.record import Record
from ruslo.records.record_check import AcceptedBatch, validate_records
from ruslo.records.rules import MAX_DECODED_RECORDS, BatchRefused, BatchRules
from tests.unit.records.examples import KEYED, NOW, RECORDS, changed, payload_of, with_payload

HOUR_MS = 3_600_000
PLAIN = LogConfig()
COMPACTED = LogConfig(cleanup_policy=("compact", "delete"))
APPEND_TIME = LogConfig(message_timestamp_type="LogAppendTime")
DELAY_MS = 1_000_000


def validated(batch: bytearray, config: LogConfig, now_ms: int = NOW) -> AcceptedBatch:
    rules = BatchRules.of(config)
    view = memoryview(batch)
    return validate_records(view, check_batch(view, rules), rules, now_ms)


def rejection(batch: bytearray, config: LogConfig, now_ms: int = NOW) -> BatchRefused:
    with pytest.raises(BatchRefused) as caught:
        validated(batch, config, now_ms)
    assert caught.value.message
    return caught.value


@pytest.mark.parametrize("codec", Codec)
def test_a_valid_batch_is_returned_unchanged(codec: Codec) -> None:
    batch = build_batch(KEYED, codec=codec)
    before = bytes(batch)
    accepted = validated(batch, COMPACTED)
    assert accepted.batch.obj is batch
    assert bytes(batch) == before
    assert accepted.header == read_header(batch)
    assert accepted.log_append_time == -1


class TestKeys:
    @pytest.mark.parametrize("codec", Codec)
    def test_errors_name_the_records_without_a_key_in_a_compacted_topic(self, codec: Codec) -> None:
        rejected = rejection(build_batch(RECORDS, codec=codec), COMPACTED)
        assert rejected.code == ErrorCode.INVALID_RECORD
        assert [error.batch_index for error in rejected.record_errors] == [1]
        assert "key" in rejected.record_errors[0].message

    def test_an_empty_key_is_a_key(self) -> None:
        assert validated(build_batch([Record(0, NOW, b"", b"v")]), COMPACTED)

    def test_other_topics_accept_records_without_a_key(self) -> None:
        assert validated(build_batch(RECORDS), PLAIN)

    def test_a_missing_key_and_an_invalid_timestamp(self) -> None:
        records = [Record(0, NOW + 2 * HOUR_MS, None, b""), Record(1, NOW + 2 * HOUR_MS, b"k", b"")]
        rejected = rejection(build_batch(records), COMPACTED)
        assert rejected.code == ErrorCode.INVALID_TIMESTAMP
        assert "key" in rejected.record_errors[0].message
        assert "range" in rejected.record_errors[1].message

    def test_the_number_of_record_errors_is_limited(self) -> None:
        rejected = rejection(build_batch([Record(index, NOW, None, b"") for index in range(1500)]), COMPACTED)
        assert len(rejected.record_errors) == 1000


class TestRecordSizes:
    """``max.decompressed.message.bytes``."""

    records = (Record(0, NOW, b"k", b"v"), Record(1, NOW, b"k", bytes(100)))
    body_bytes = 108
    """The larger record: 101 bytes of key and value, and seven bytes that describe them."""

    @pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
    def test_a_larger_record_in_a_compressed_batch_is_rejected(self, codec: Codec) -> None:
        batch = build_batch(self.records, codec=codec)
        assert validated(batch, LogConfig(max_decompressed_message_bytes=self.body_bytes))
        rejected = rejection(batch, LogConfig(max_decompressed_message_bytes=self.body_bytes - 1))
        assert rejected.code == ErrorCode.INVALID_RECORD
        assert rejected.record_errors == ()
        assert "it has 108 bytes, max.decompressed.message.bytes allows 107" in str(rejected)

    def test_an_uncompressed_batch_is_not_limited(self) -> None:
        assert validated(build_batch(self.records), LogConfig(max_decompressed_message_bytes=0))


class TestCreateTime:
    config = LogConfig(message_timestamp_before_max_ms=5000, message_timestamp_after_max_ms=1000)

    @pytest.mark.parametrize("codec", Codec)
    def test_the_allowed_range_of_timestamps(self, codec: Codec) -> None:
        times = [NOW - 5000, NOW - 5001, NOW + 1000, NOW + 1001, -1]
        records = [Record(index, time, b"k", b"v") for index, time in enumerate(times)]
        rejected = rejection(build_batch(records, codec=codec), self.config)
        assert rejected.code == ErrorCode.INVALID_TIMESTAMP
        assert [error.batch_index for error in rejected.record_errors] == [1, 3]
        assert str(NOW - 5001) in rejected.record_errors[0].message

    @pytest.mark.parametrize("codec", Codec)
    @pytest.mark.parametrize("wrong", [-1, 0, NOW + 3, NOW + 500])
    def test_a_wrong_max_timestamp_is_corrected(self, codec: Codec, wrong: int) -> None:
        batch = changed(build_batch(KEYED, codec=codec), ">q", layout.MAX_TIMESTAMP_AT, wrong)
        accepted = validated(batch, PLAIN)
        assert accepted.batch == build_batch(KEYED, codec=codec)
        assert accepted.header == read_header(accepted.batch)
        assert accepted.batch.obj is batch

    def test_a_wrong_max_timestamp_in_a_readonly_buffer(self) -> None:
        batch = bytes(changed(build_batch(KEYED), ">q", layout.MAX_TIMESTAMP_AT, 5))
        rules = BatchRules.of(PLAIN)
        view = memoryview(batch)
        accepted = validate_records(view, check_batch(view, rules), rules, NOW)
        assert accepted.batch == build_batch(KEYED)

    def test_the_log_append_time_bit_is_removed(self) -> None:
        accepted = validated(build_batch(KEYED, attributes=layout.LOG_APPEND_TIME), PLAIN)
        assert accepted.batch == build_batch(KEYED)
        assert accepted.log_append_time == -1

    def test_the_log_append_time_bit_without_a_timestamp(self) -> None:
        batch = build_batch(KEYED, attributes=layout.LOG_APPEND_TIME)
        rejected = rejection(changed(batch, ">q", layout.MAX_TIMESTAMP_AT, -1), PLAIN)
        assert rejected.code == ErrorCode.INVALID_TIMESTAMP
        assert len(rejected.record_errors) == len(KEYED)


class TestLogAppendTime:
    @pytest.mark.parametrize("codec", Codec)
    def test_the_broker_s_time(self, codec: Codec) -> None:
        batch = build_batch(KEYED, codec=codec)
        accepted = validated(batch, APPEND_TIME, NOW + DELAY_MS)
        header = read_header(accepted.batch)
        assert accepted.log_append_time == NOW + DELAY_MS
        assert check_crc(accepted.batch)
        assert header.attributes == codec | layout.LOG_APPEND_TIME
        assert header.max_timestamp == NOW + DELAY_MS
        assert header.base_timestamp == NOW
        assert {record.timestamp for record in read_records(accepted.batch)} == {NOW + DELAY_MS}

    def test_any_timestamp_of_the_client_is_accepted(self) -> None:
        assert validated(build_batch([Record(0, 5, None, None), Record(1, NOW * 2, None, None)]), APPEND_TIME)

    def test_the_client_must_not_set_the_bit(self) -> None:
        rejected = rejection(build_batch(KEYED, attributes=layout.LOG_APPEND_TIME), APPEND_TIME)
        assert rejected.code == ErrorCode.INVALID_TIMESTAMP
        assert [error.batch_index for error in rejected.record_errors] == [0, 1, 2, 3, 4]


class TestRecompression:
    @pytest.mark.parametrize("source", Codec)
    @pytest.mark.parametrize("target", Codec)
    @pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
    def test_only_the_codec_changes(self, source: Codec, target: Codec, timestamp_type: str) -> None:
        batch = build_batch(
            RECORDS,
            codec=source,
            producer_id=8,
            producer_epoch=4,
            base_sequence=77,
            attributes=layout.TRANSACTIONAL,
        )
        original = read_header(batch)
        name = "uncompressed" if target == Codec.NONE else target.name.lower()
        config = LogConfig(compression_type=name, message_timestamp_type=timestamp_type)
        accepted = validated(batch, config, NOW + DELAY_MS)
        header = read_header(accepted.batch)
        stamped = timestamp_type == "LogAppendTime"
        attributes = layout.TRANSACTIONAL | target | (layout.LOG_APPEND_TIME if stamped else 0)
        max_timestamp = NOW + DELAY_MS if stamped else original.max_timestamp
        assert check_crc(accepted.batch)
        assert header == accepted.header
        assert header._replace(length=0, crc=0) == original._replace(
            length=0, crc=0, attributes=attributes, max_timestamp=max_timestamp
        )
        seen = [record._replace(timestamp=0) for record in read_records(accepted.batch)]
        assert seen == [record._replace(timestamp=0) for record in RECORDS]

    def test_the_level_is_the_topic_s(self) -> None:
        value = b"".join(b"%d," % (index * index) for index in range(3000))
        sizes = [
            len(
                validated(
                    build_batch([Record(0, NOW, None, value)]),
                    LogConfig(compression_type="gzip", compression_gzip_level=level),
                ).batch
            )
            for level in (1, 9)
        ]
        assert sizes[1] < sizes[0]

    def test_the_new_size_counts(self) -> None:
        compressed = build_batch([Record(0, NOW, None, bytes(5000))], codec=Codec.ZSTD)
        too_large = LogConfig(compression_type="uncompressed", max_message_bytes=5000)
        assert rejection(bytearray(compressed), too_large).code == ErrorCode.MESSAGE_TOO_LARGE
        long_segment = LogConfig(compression_type="uncompressed", segment_bytes=5000)
        assert rejection(bytearray(compressed), long_segment).code == ErrorCode.RECORD_LIST_TOO_LARGE

    def test_a_batch_too_long_for_a_segment_may_fit_when_compressed(self) -> None:
        batch = build_batch([Record(0, NOW, None, bytes(5000))])
        accepted = validated(batch, LogConfig(compression_type="lz4", segment_bytes=5000))
        assert len(accepted.batch) < 5000


class TestPayload:
    @pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
    def test_records_that_cannot_be_decompressed(self, codec: Codec) -> None:
        batch = with_payload(b"\xff" * 30, count=2, attributes=codec)
        assert rejection(batch, PLAIN).code == ErrorCode.UNKNOWN_SERVER_ERROR

    @pytest.mark.parametrize("codec", Codec)
    def test_malformed_records(self, codec: Codec) -> None:
        batch = with_payload(compress(codec, payload_of(KEYED[:2])), count=3, attributes=codec)
        assert rejection(batch, PLAIN).code == ErrorCode.INVALID_RECORD

    def gaps(self, codec: Codec) -> bytearray:
        payload = bytearray(payload_of([Record(0, NOW, b"k", b"v")]))
        payload[3] = 8  # offset delta 4
        return with_payload(compress(codec, bytes(payload)), count=1, attributes=codec)

    def test_offset_deltas_must_count_from_zero(self) -> None:
        assert rejection(self.gaps(Codec.NONE), PLAIN).code == ErrorCode.INVALID_RECORD
        assert rejection(self.gaps(Codec.LZ4), PLAIN).code == ErrorCode.UNKNOWN_SERVER_ERROR

    def test_recompression_assigns_new_offset_deltas(self) -> None:
        accepted = validated(self.gaps(Codec.LZ4), LogConfig(compression_type="zstd"))
        assert [record.offset for record in read_records(accepted.batch)] == [0]

    @pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
    def test_decompression_bombs_are_too_large(self, codec: Codec) -> None:
        batch = build_batch([Record(0, NOW, None, bytes(200_000))], codec=codec)
        small = dataclasses.replace(BatchRules.of(PLAIN), max_decompressed_bytes=100_000)
        view = memoryview(batch)
        with pytest.raises(BatchRefused) as rejected:
            validate_records(view, check_batch(view, small), small, NOW)
        assert rejected.value.code == ErrorCode.MESSAGE_TOO_LARGE

    def test_too_many_records_to_decode(self) -> None:
        batch = with_payload(bytes(7 * MAX_DECODED_RECORDS + 7), count=1)
        changed(batch, ">i", layout.COUNT_AT, MAX_DECODED_RECORDS + 1)
        changed(batch, ">i", layout.LAST_OFFSET_DELTA_AT, MAX_DECODED_RECORDS)
        assert rejection(batch, PLAIN).code == ErrorCode.MESSAGE_TOO_LARGE
