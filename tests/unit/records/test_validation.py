from __future__ import annotations

import random

import pytest

from ruslo.config.log_config import LogConfig
from ruslo.model.errors import ErrorCode
from ruslo.records import batch as layout
from ruslo.records.batch import read_header
from ruslo.records.builder import build_batch, set_crc
from ruslo.records.compression import Codec
from ruslo.records.reader import check_crc
from ruslo.records.record import Record
from ruslo.records.validation import (
    BatchRefused,
    BatchRules,
    accept_batch,
    check_batch,
    needs_records,
    needs_work,
    patch,
)
from tests.unit.records.examples import KEYED, NOW, changed, with_payload

WINDOW = LogConfig(message_timestamp_before_max_ms=60_000, message_timestamp_after_max_ms=60_000)


def needed_work(batch: bytearray, config: LogConfig) -> tuple[bool, bool]:
    """Whether the batch needs work, and whether its records must be decoded."""
    rules = BatchRules.of(config)
    header = check_batch(memoryview(batch), rules)
    return needs_work(header, rules, NOW), needs_records(header, rules, NOW)


@pytest.mark.parametrize(
    ("config", "work", "records"),
    [
        (LogConfig(), False, False),
        (WINDOW, False, False),
        (LogConfig(ruslo_record_validation="full"), True, True),
        (LogConfig(cleanup_policy=("compact",)), True, True),
        (LogConfig(cleanup_policy=()), False, False),
        (LogConfig(compression_type="gzip"), False, False),
        (LogConfig(compression_type="uncompressed"), True, True),
        (LogConfig(compression_type="zstd"), True, True),
        (LogConfig(message_timestamp_type="LogAppendTime"), True, False),
        (LogConfig(max_decompressed_message_bytes=1_000_000), True, True),
    ],
)
def test_topics_that_need_decoding(config: LogConfig, work: bool, records: bool) -> None:
    assert needed_work(build_batch(KEYED, codec=Codec.GZIP), config) == (work, records)


@pytest.mark.parametrize(
    ("times", "suspicious"),
    [
        ([NOW - 60_000, NOW + 60_000], False),
        ([NOW, NOW + 60_001], True),
        ([NOW - 60_001, NOW], True),
        ([-1], True),
        ([NOW, -1], False),
    ],
)
def test_suspicious_timestamps_in_the_header(times: list[int], suspicious: bool) -> None:
    batch = build_batch([Record(index, time, b"k", b"v") for index, time in enumerate(times)])
    assert needed_work(batch, WINDOW) == (suspicious, suspicious)


def test_a_max_timestamp_below_the_base_timestamp_is_suspicious() -> None:
    batch = changed(build_batch(KEYED), ">q", layout.MAX_TIMESTAMP_AT, NOW - 1)
    assert needed_work(batch, LogConfig()) == (True, True)


def test_the_log_append_time_bit_is_suspicious() -> None:
    batch = build_batch(KEYED, attributes=layout.LOG_APPEND_TIME)
    assert needed_work(batch, LogConfig()) == (True, True)
    assert needed_work(batch, LogConfig(message_timestamp_type="LogAppendTime")) == (True, True)


class TestAcceptBatch:
    def test_a_plain_batch_is_not_copied(self) -> None:
        batch = build_batch(KEYED, codec=Codec.LZ4)
        accepted = accept_batch(memoryview(batch), BatchRules.of(LogConfig()), NOW)
        assert accepted.batch.obj is batch
        assert accepted.header == read_header(batch)
        assert accepted.log_append_time == -1

    def test_header_mode_does_not_decode_records(self) -> None:
        garbage = with_payload(b"\xff" * 30, count=2)
        assert accept_batch(memoryview(garbage), BatchRules.of(LogConfig()), NOW)
        with pytest.raises(BatchRefused):
            accept_batch(memoryview(garbage), BatchRules.of(LogConfig(ruslo_record_validation="full")), NOW)

    def test_bytes_after_the_batch_are_removed(self) -> None:
        batch = build_batch(KEYED)
        for config in (
            LogConfig(),
            LogConfig(ruslo_record_validation="full"),
            LogConfig(message_timestamp_type="LogAppendTime"),
        ):
            accepted = accept_batch(memoryview(batch + b"\x01\x02"), BatchRules.of(config), NOW)
            assert len(accepted.batch) == len(batch)
            assert check_crc(accepted.batch)

    def test_log_append_time_needs_no_records(self) -> None:
        garbage = with_payload(b"\xff" * 30, count=2)
        rules = BatchRules.of(LogConfig(message_timestamp_type="LogAppendTime"))
        accepted = accept_batch(memoryview(garbage), rules, NOW + 5)
        assert check_crc(accepted.batch)
        assert read_header(accepted.batch).max_timestamp == NOW + 5
        assert read_header(accepted.batch).is_log_append_time
        assert accepted.log_append_time == NOW + 5

    def test_header_mode_names_the_record_with_the_invalid_timestamp(self) -> None:
        times = [NOW, NOW + 60_001, NOW]
        batch = build_batch([Record(index, time, b"k", b"v") for index, time in enumerate(times)])
        with pytest.raises(BatchRefused) as caught:
            accept_batch(memoryview(batch), BatchRules.of(WINDOW), NOW)
        assert caught.value.code == ErrorCode.INVALID_TIMESTAMP
        assert [error.batch_index for error in caught.value.record_errors] == [1]

    @pytest.mark.parametrize("codec", Codec)
    def test_mutated_batches_are_rejected_or_valid(self, codec: Codec) -> None:
        rng = random.Random(50 + codec)
        original = build_batch(KEYED, codec=codec)
        topics = [
            BatchRules.of(LogConfig(cleanup_policy=("compact",))),
            BatchRules.of(LogConfig(compression_type="zstd", message_timestamp_type="LogAppendTime")),
        ]
        for iteration in range(1000):
            batch = bytearray(original)
            for _ in range(rng.randint(1, 4)):
                batch[rng.randrange(layout.ATTRIBUTES_AT, len(batch))] = rng.randrange(256)
            set_crc(batch)
            try:
                accepted = accept_batch(memoryview(batch), topics[iteration % 2], NOW)
            except BatchRefused:
                continue
            assert check_crc(accepted.batch)
            assert read_header(accepted.batch) == accepted.header


def test_patch_keeps_the_crc() -> None:
    batch = build_batch(KEYED)
    patch(memoryview(batch), 123_456_789_012, 42)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch) == (123_456_789_012, 42)
    assert check_crc(batch)


def test_rules_of_a_config() -> None:
    rules = BatchRules.of(LogConfig(compression_type="lz4", compression_lz4_level=12, segment_bytes=1 << 20))
    assert (rules.target_codec, rules.target_level) == (Codec.LZ4, 12)
    assert rules.max_length == (1 << 20) - layout.LENGTH_OVERHEAD
    assert BatchRules.of(LogConfig(compression_type="uncompressed")).target_codec == Codec.NONE
