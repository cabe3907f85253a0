from __future__ import annotations

import struct

import pytest

from ruslo.model.errors import ProtocolError
from ruslo.pipeline.decode.batch_table import scan_batches
from ruslo.records import batch as layout
from ruslo.records.builder import build_batch
from tests.unit.records.examples import KEYED, RECORDS, changed


def test_the_table_has_the_fields_of_the_headers() -> None:
    first = build_batch(RECORDS, base_offset=10, producer_id=7, attributes=layout.TRANSACTIONAL)
    second = build_batch(KEYED, base_offset=20, attributes=layout.LOG_APPEND_TIME, codec=3)
    table = scan_batches(first + second)
    assert len(table) == 2
    assert table.at.tolist() == [0, len(first)]
    assert table.base_offsets.tolist() == [10, 20]
    assert table.last_offsets.tolist() == [13, 24]
    assert table.counts.tolist() == [4, 5]
    assert table.producer_ids.tolist() == [7, -1]
    assert table.codecs.tolist() == [0, 3]
    assert table.is_transactional.tolist() == [True, False]
    assert table.has_append_time.tolist() == [False, True]
    assert not table.is_control.any()
    assert (table.next_offset, table.bytes_used) == (25, len(first) + len(second))
    assert bytes(table.batch(1)) == bytes(second)


def test_a_truncated_batch_is_ignored() -> None:
    first, second = build_batch(RECORDS), build_batch(KEYED, base_offset=4)
    for size in range(len(second)):
        assert scan_batches(first + second[:size]).next_offset == 4


def test_an_empty_table_has_no_next_offset() -> None:
    table = scan_batches(b"")
    assert (len(table), table.next_offset, table.bytes_used) == (0, None, 0)


def test_bytes_after_the_end_offset_are_not_parsed() -> None:
    batch = build_batch(RECORDS, base_offset=10)
    zeros = bytes(500)  # as in a preallocated segment
    assert scan_batches(batch + zeros, end_offset=14).next_offset == 14
    assert scan_batches(batch + zeros, end_offset=12).next_offset == 14
    with pytest.raises(ProtocolError, match="message format 0"):
        scan_batches(batch + zeros, end_offset=15)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("size", [34, 200])
def test_old_message_formats_are_rejected_with_a_fix(magic: int, size: int) -> None:
    message = bytearray(struct.pack(">qi4xb", 0, size - 12, magic))
    message += bytes(size - len(message))
    with pytest.raises(
        ProtocolError, match=rf"message format {magic}, from Kafka before 0\.11.*copy the topic"
    ):
        scan_batches(message)


def test_an_unknown_magic_is_rejected() -> None:
    batch = build_batch(RECORDS)
    batch[layout.MAGIC_AT] = 3
    with pytest.raises(ProtocolError, match="unknown magic 3"):
        scan_batches(batch)


@pytest.mark.parametrize("length", [-(2**31), -12, 0, 48])
def test_a_batch_shorter_than_its_header_is_rejected(length: int) -> None:
    with pytest.raises(ProtocolError, match="less than its header"):
        scan_batches(changed(build_batch(RECORDS), ">i", layout.LENGTH_AT, length))


def test_offsets_that_decrease_are_rejected() -> None:
    with pytest.raises(ProtocolError, match="ends before it begins"):
        scan_batches(changed(build_batch(RECORDS), ">i", layout.LAST_OFFSET_DELTA_AT, -2))
    with pytest.raises(ProtocolError, match="negative base offset"):
        scan_batches(changed(build_batch(RECORDS), ">q", 0, -5))
    with pytest.raises(ProtocolError, match="ends before it begins"):
        scan_batches(changed(build_batch(RECORDS), ">q", 0, 2**63 - 2))


def test_a_damaged_batch_does_not_match_its_crc() -> None:
    batch = build_batch(RECORDS, base_offset=77)
    batch[-1] ^= 1
    with pytest.raises(ProtocolError, match="offset 77 does not match its CRC"):
        scan_batches(batch).check_crcs()
