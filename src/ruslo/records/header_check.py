"""Checks the header and checksum of a produced batch, for every Produce request.

``check_batch`` tests all conditions at once. Only if one fails, ``_examine`` tests them one by one, in the
order of Kafka's leader, to find the error that Kafka would return.
"""

from __future__ import annotations

import struct
from typing import Final

from crc32c import crc32c

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ErrorCode
from ruslo.records.batch import (
    ATTRIBUTES_AT,
    BASE_OFFSET_STRUCT,
    CODEC_MASK,
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LENGTH_AT,
    LENGTH_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    TRANSACTIONAL,
    HeaderFields,
)
from ruslo.records.compression import MAX_DECOMPRESSED_BYTES, Codec
from ruslo.records.rules import KEEP_CODEC, BatchRefused, BatchRules

_unpack_header = HEADER.unpack_from
_LAST_CODEC: Final = int(Codec.ZSTD)
_LENGTH: Final = struct.Struct(">i")
_MAGIC: Final = struct.Struct(">b")
_SMALLEST_LENGTH: Final = 14
"""The length of the smallest message of the oldest format; Kafka takes smaller ones for corrupt."""
_SMALLEST_RECORD: Final = 7
"""Bytes of length, attributes, timestamp, offset, null key, null value and number of headers."""
_MAX_RATIOS: Final = (1, 1032, 22, 255, 32768)
"""The largest compression ratio of each codec, by codec id.

* none: 1
* gzip: 1032, a match of 258 bytes takes two bits
* snappy: 22, a copy of 64 bytes takes three bytes
* lz4: 255, one more byte of a match length
* zstd: 32,768, a run-length block of 128 KiB takes four bytes
"""
_MAX_COUNT: Final = MAX_DECOMPRESSED_BYTES // _SMALLEST_RECORD
"""Most records of a batch that readers can decompress."""


def check_batch(view: memoryview, rules: BatchRules) -> HeaderFields:
    """Check the records of one partition in a Produce request; returns the header of the batch.

    Raises BatchRefused. The batch is ``view[: header[LENGTH] + 12]``: as in Kafka, bytes after it are
    ignored. The records inside are not decoded, see ``needs_records``.
    """
    if len(view) >= HEADER_SIZE:
        header: HeaderFields = _unpack_header(view)
        base_offset, length, _, magic, crc, attributes, last, _, _, producer_id, epoch, sequence, count = (
            header
        )
        if (
            base_offset == 0
            and length + LENGTH_OVERHEAD == len(view)
            and magic == MAGIC_V2
            and length <= rules.max_length
            and 0 < count == last + 1 <= _MAX_COUNT
            and not attributes & CONTROL
            and attributes & CODEC_MASK <= _LAST_CODEC
            and count * _SMALLEST_RECORD <= (len(view) - HEADER_SIZE) * _MAX_RATIOS[attributes & CODEC_MASK]
            and (sequence >= 0 and epoch >= 0 if producer_id >= 0 else not attributes & TRANSACTIONAL)
            and crc32c(view[ATTRIBUTES_AT:]) == crc
        ):
            return header
    return _examine(view, rules)


def _examine(view: memoryview, rules: BatchRules) -> HeaderFields:
    size = _batch_size(view, 0)
    if size is None:
        raise BatchRefused(
            ErrorCode.INVALID_RECORD,
            "the records of this partition are not a whole batch; send exactly one",
        )
    magic = _MAGIC.unpack_from(view, MAGIC_AT)[0]
    if magic != MAGIC_V2:
        raise BatchRefused(
            ErrorCode.INVALID_RECORD,
            f"the record batch has magic {magic}; send magic {MAGIC_V2}",
        )
    if _batch_size(view, size) is not None:
        raise BatchRefused(
            ErrorCode.INVALID_RECORD,
            "this partition has more than one record batch; send exactly one",
        )
    (base_offset,) = BASE_OFFSET_STRUCT.unpack_from(view)
    if base_offset != 0:
        raise BatchRefused(
            ErrorCode.INVALID_RECORD, f"the record batch has base offset {base_offset}; send 0"
        )
    if size > rules.max_message_bytes:
        raise too_large(size, rules)
    if size < HEADER_SIZE:
        raise BatchRefused(
            ErrorCode.CORRUPT_MESSAGE,
            f"the record batch has {size} bytes, less than its header of {HEADER_SIZE}",
        )
    header: HeaderFields = _unpack_header(view)
    _, _, _, _, crc, attributes, last_delta, _, _, producer_id, epoch, sequence, count = header
    if crc32c(view[ATTRIBUTES_AT:size]) != crc:
        raise BatchRefused(
            ErrorCode.CORRUPT_MESSAGE,
            "the record batch does not match its CRC; send it again",
        )
    if attributes & CODEC_MASK > _LAST_CODEC:
        raise BatchRefused(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"the record batch has unknown codec {attributes & CODEC_MASK}; codecs are 0 to {_LAST_CODEC}",
        )
    if count <= 0 or count != last_delta + 1:
        raise BatchRefused(
            ErrorCode.INVALID_RECORD,
            f"the record batch has {count} records and last offset delta {last_delta}; they must match",
        )
    codec = attributes & CODEC_MASK
    max_count = min((size - HEADER_SIZE) * _MAX_RATIOS[codec] // _SMALLEST_RECORD, _MAX_COUNT)
    if count > max_count:
        raise BatchRefused(
            ErrorCode.INVALID_RECORD,
            f"the record batch claims {count} records, but {size - HEADER_SIZE} bytes "
            f"({Codec(codec).name.lower()}) can hold at most {max_count}",
        )
    if attributes & CONTROL:
        raise BatchRefused(ErrorCode.INVALID_RECORD, "clients are not allowed to write control records")
    if producer_id >= 0 and sequence < 0:
        raise BatchRefused(
            ErrorCode.INVALID_RECORD,
            f"the record batch has producer id {producer_id} but sequence {sequence}",
        )
    if producer_id >= 0 and epoch < 0:
        raise BatchRefused(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"the record batch has producer id {producer_id} but producer epoch {epoch}; epochs start at 0",
        )
    if producer_id < 0 and attributes & TRANSACTIONAL:
        raise BatchRefused(
            ErrorCode.INVALID_RECORD,
            f"the record batch is transactional but has producer id {producer_id}; request one with "
            "InitProducerId",
        )
    # The size of a batch that is recompressed is checked after that.
    if size > rules.segment_bytes and rules.target_codec in (KEEP_CODEC, attributes & CODEC_MASK):
        raise longer_than_segment(size, rules)
    return header


def _batch_size(view: ReadBuffer, pos: int) -> int | None:
    """The size of the batch at ``pos``; None where Kafka's reader would stop at the end of the data."""
    remaining = len(view) - pos
    if remaining < LENGTH_OVERHEAD:
        return None
    length: int = _LENGTH.unpack_from(view, pos + LENGTH_AT)[0]
    if length < _SMALLEST_LENGTH:
        raise BatchRefused(ErrorCode.CORRUPT_MESSAGE, f"a record batch has the invalid length {length}")
    if remaining <= MAGIC_AT:
        return None
    magic: int = _MAGIC.unpack_from(view, pos + MAGIC_AT)[0]
    if not 0 <= magic <= MAGIC_V2:
        raise BatchRefused(ErrorCode.CORRUPT_MESSAGE, f"a record batch has the unknown magic {magic}")
    size = length + LENGTH_OVERHEAD
    return size if remaining >= size else None


def too_large(size: int, rules: BatchRules) -> BatchRefused:
    return BatchRefused(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the record batch has {size} bytes, max.message.bytes allows {rules.max_message_bytes}; "
        f"send smaller batches or raise max.message.bytes of the topic",
    )


def longer_than_segment(size: int, rules: BatchRules) -> BatchRefused:
    return BatchRefused(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"the record batch has {size} bytes and does not fit into a segment of {rules.segment_bytes}; "
        f"send smaller batches or raise segment.bytes of the topic",
    )
