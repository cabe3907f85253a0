"""Every error that a leader finds in the header and CRC, and the order of the checks."""

from __future__ import annotations

import random
import struct

import pytest

from ruslo.config.log_config import LogConfig
from ruslo.model.errors import ErrorCode
from ruslo.records import batch as layout
from ruslo.records.batch import read_header
from ruslo.records.builder import build_batch, set_crc
from ruslo.records.compression import Codec
from ruslo.records.header_check import check_batch
from ruslo.records.record import Record
from ruslo.records.rules import BatchRefused, BatchRules
from tests.unit.records.examples import KEYED, NOW, changed

RULES = BatchRules.of(LogConfig())


def rejection(payload: bytes | bytearray, rules: BatchRules = RULES) -> ErrorCode:
    with pytest.raises(BatchRefused) as caught:
        check_batch(memoryview(payload), rules)
    assert caught.value.message
    assert caught.value.record_errors == ()
    return caught.value.code


@pytest.mark.parametrize("codec", Codec)
def test_valid_batch_returns_its_header(codec: Codec) -> None:
    batch = build_batch(
        KEYED,
        codec=codec,
        producer_id=4,
        producer_epoch=0,
        base_sequence=0,
        attributes=layout.TRANSACTIONAL,
    )
    assert check_batch(memoryview(batch), RULES) == read_header(batch)


@pytest.mark.parametrize("size", [0, 11, 12, 16, 17, 60, 61, 90])
def test_partial_batch(size: int) -> None:
    assert rejection(build_batch(KEYED)[:size]) == ErrorCode.INVALID_RECORD


def test_two_batches() -> None:
    assert rejection(build_batch(KEYED) + build_batch(KEYED)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("behind", [b"\x00", bytes(11), bytes(8) + b"\x00\x00\x00\xff" + bytes(20)])
def test_bytes_after_the_batch_are_ignored(behind: bytes) -> None:
    batch = build_batch(KEYED)
    header = check_batch(memoryview(batch + behind), RULES)
    assert header[layout.LENGTH] + layout.LENGTH_OVERHEAD == len(batch)


def test_bytes_after_the_batch_that_resemble_a_broken_batch() -> None:
    assert rejection(build_batch(KEYED) + bytes(12)) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [0, 1])
def test_old_magic(magic: int) -> None:
    assert rejection(changed(build_batch(KEYED), ">b", layout.MAGIC_AT, magic)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [3, 127, -1])
def test_unknown_magic(magic: int) -> None:
    assert rejection(changed(build_batch(KEYED), ">b", layout.MAGIC_AT, magic)) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13])
def test_invalid_length(length: int) -> None:
    assert rejection(changed(build_batch(KEYED), ">i", layout.LENGTH_AT, length)) == ErrorCode.CORRUPT_MESSAGE


def test_a_batch_shorter_than_its_header() -> None:
    batch = build_batch(KEYED)[: layout.HEADER_SIZE - 1]
    struct.pack_into(">i", batch, layout.LENGTH_AT, len(batch) - layout.LENGTH_OVERHEAD)
    assert rejection(batch) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("base_offset", [1, -1, 2**62])
def test_base_offset_other_than_zero(base_offset: int) -> None:
    assert rejection(build_batch(KEYED, base_offset=base_offset)) == ErrorCode.INVALID_RECORD


def test_sizes_at_the_limit() -> None:
    batch = build_batch(KEYED)
    size = len(batch)
    assert check_batch(memoryview(batch), BatchRules.of(LogConfig(max_message_bytes=size)))
    assert check_batch(memoryview(batch), BatchRules.of(LogConfig(segment_bytes=size)))
    small_message = BatchRules.of(LogConfig(max_message_bytes=size - 1, segment_bytes=size - 1))
    small_segment = BatchRules.of(LogConfig(segment_bytes=size - 1))
    assert rejection(batch, small_message) == ErrorCode.MESSAGE_TOO_LARGE
    assert rejection(batch, small_segment) == ErrorCode.RECORD_LIST_TOO_LARGE


def test_the_size_of_a_recompressed_batch_is_checked_later() -> None:
    batch = build_batch(KEYED)
    rules = BatchRules.of(LogConfig(segment_bytes=len(batch) - 1, compression_type="zstd"))
    assert check_batch(memoryview(batch), rules) == read_header(batch)


def test_wrong_crc() -> None:
    batch = build_batch(KEYED)
    batch[-1] ^= 1
    assert rejection(batch) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codecs_that_do_not_exist(codec: int) -> None:
    batch = changed(build_batch(KEYED), ">h", layout.ATTRIBUTES_AT, codec)
    assert rejection(batch) == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("count", "last_offset_delta"), [(0, -1), (0, 0), (-1, -2), (5, 3), (4, 4), (-(2**31), 2**31 - 1)]
)
def test_counts(count: int, last_offset_delta: int) -> None:
    batch = changed(build_batch(KEYED), ">i", layout.COUNT_AT, count)
    changed(batch, ">i", layout.LAST_OFFSET_DELTA_AT, last_offset_delta)
    assert rejection(batch) == ErrorCode.INVALID_RECORD


def test_more_records_than_the_bytes_can_hold() -> None:
    """A false count could exhaust the offsets of a partition, two billion per batch."""
    smallest = build_batch([Record(index, NOW, None, None) for index in range(3)])
    assert check_batch(memoryview(smallest), RULES)[12] == 3
    for count in (4, 2**31 - 1):
        forged = changed(bytearray(smallest), ">i", layout.COUNT_AT, count)
        changed(forged, ">i", layout.LAST_OFFSET_DELTA_AT, count - 1)
        assert rejection(forged) == ErrorCode.INVALID_RECORD


def test_control_bit() -> None:
    assert rejection(build_batch(KEYED, attributes=layout.CONTROL)) == ErrorCode.INVALID_RECORD


def test_producer_id_without_sequence() -> None:
    assert rejection(build_batch(KEYED, producer_id=0, producer_epoch=0)) == ErrorCode.INVALID_RECORD


def test_unused_attribute_bits_are_accepted() -> None:
    batch = changed(build_batch(KEYED), ">h", layout.ATTRIBUTES_AT, 0x7F00 | layout.DELETE_HORIZON)
    assert check_batch(memoryview(batch), RULES)


def test_errors_have_the_order_of_kafka() -> None:
    rules = BatchRules.of(LogConfig(max_message_bytes=70))
    batch = build_batch(KEYED, attributes=layout.CONTROL)
    batch[-1] ^= 1  # too large, wrong CRC, control
    assert rejection(batch, rules) == ErrorCode.MESSAGE_TOO_LARGE
    assert rejection(batch) == ErrorCode.CORRUPT_MESSAGE
    struct.pack_into(">q", batch, 0, 5)  # and a base offset
    assert rejection(batch, rules) == ErrorCode.INVALID_RECORD
    struct.pack_into(">b", batch, layout.MAGIC_AT, 9)  # and an unknown magic
    assert rejection(batch, rules) == ErrorCode.CORRUPT_MESSAGE


def test_mutated_batches_are_rejected_or_valid() -> None:
    rng = random.Random(3)
    original = build_batch(KEYED, producer_id=5, producer_epoch=0, base_sequence=0)
    for _ in range(5000):
        batch = bytearray(original)
        for _ in range(rng.randint(1, 4)):
            batch[rng.randrange(layout.HEADER_SIZE)] = rng.choice(
                (0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256))
            )
        if rng.random() < 0.7:
            set_crc(batch)
        try:
            header = check_batch(memoryview(batch), RULES)
        except BatchRefused:
            continue
        assert header[layout.BASE_OFFSET] == 0
        assert header[layout.MAGIC] == layout.MAGIC_V2
        assert header[layout.RECORD_COUNT] == header[layout.LAST_OFFSET_DELTA] + 1 > 0
        assert header[layout.LENGTH] + layout.LENGTH_OVERHEAD <= len(batch)


@pytest.mark.parametrize("epoch", [-1, -2, -(2**15)])
@pytest.mark.parametrize("validation", ["header", "full"])
def test_a_producer_id_needs_an_epoch(epoch: int, validation: str) -> None:
    rules = BatchRules.of(LogConfig(ruslo_record_validation=validation))
    batch = build_batch(KEYED, producer_id=4, producer_epoch=0, base_sequence=0)
    changed(batch, ">h", layout.PRODUCER_ID_AT + 8, epoch)
    assert rejection(batch, rules) == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("producer_id", [-1, -2])
def test_a_transactional_batch_needs_a_producer_id(producer_id: int) -> None:
    batch = build_batch(KEYED, attributes=layout.TRANSACTIONAL, producer_epoch=0, base_sequence=0)
    changed(batch, ">q", layout.PRODUCER_ID_AT, producer_id)
    assert rejection(batch) == ErrorCode.INVALID_RECORD


def claiming(codec: Codec, payload_bytes: int, count: int) -> bytearray:
    """A batch that claims ``count`` records in ``payload_bytes`` bytes, which are not decoded."""
    batch = bytearray(build_batch(KEYED)[: layout.HEADER_SIZE]) + bytes(payload_bytes)
    struct.pack_into(">i", batch, layout.LENGTH_AT, len(batch) - layout.LENGTH_OVERHEAD)
    struct.pack_into(">h", batch, layout.ATTRIBUTES_AT, codec)
    struct.pack_into(">i", batch, layout.LAST_OFFSET_DELTA_AT, count - 1)
    struct.pack_into(">i", batch, layout.COUNT_AT, count)
    set_crc(batch)
    return batch


RATIOS = {Codec.NONE: 1, Codec.GZIP: 1032, Codec.SNAPPY: 22, Codec.LZ4: 255, Codec.ZSTD: 32768}


@pytest.mark.parametrize(("codec", "ratio"), RATIOS.items())
def test_a_batch_claims_no_more_records_than_its_bytes_can_hold(codec: Codec, ratio: int) -> None:
    most = 70 * ratio // 7
    assert check_batch(memoryview(claiming(codec, 70, most)), RULES)
    for count in (most + 1, 2**31 - 1):
        assert rejection(claiming(codec, 70, count)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_the_most_compressible_records_fit_the_bound(codec: Codec) -> None:
    batch = build_batch([Record(index, NOW, None, None) for index in range(20_000)], codec=codec)
    assert check_batch(memoryview(batch), RULES)


def test_no_batch_claims_more_records_than_a_reader_would_decompress() -> None:
    assert check_batch(memoryview(claiming(Codec.ZSTD, 100_000, 2**27 // 7)), RULES)
    assert rejection(claiming(Codec.ZSTD, 100_000, 2**27 // 7 + 1)) == ErrorCode.INVALID_RECORD
