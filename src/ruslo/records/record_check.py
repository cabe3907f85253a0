"""Checks the records inside a produced batch, and makes the changes that a leader makes to a batch.

| fault                                                            | error, as in Kafka                      |
|------------------------------------------------------------------|-----------------------------------------|
| no key in a compacted topic, or an invalid timestamp             | INVALID_RECORD, INVALID_TIMESTAMP, with |
|                                                                  | ``record_errors`` (KIP-467)             |
| malformed records                                                | INVALID_RECORD                          |
| a record in a compressed batch above                             | INVALID_RECORD                          |
| ``max.decompressed.message.bytes``                               |                                         |
| records that cannot be decompressed, or a compressed batch whose | UNKNOWN_SERVER_ERROR, which clients do  |
| offset deltas are not 0, 1, 2, …                                 | not retry                               |
| *Ruslo only:* an uncompressed batch with wrong offset deltas     | INVALID_RECORD (Kafka stores the batch) |
| *Ruslo only:* too many records or decompressed bytes             | MESSAGE_TOO_LARGE: clients split it     |
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from ruslo.model.errors import ErrorCode, ProtocolError
from ruslo.records.batch import (
    ATTRIBUTES,
    ATTRIBUTES_AT,
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER,
    LENGTH,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAX_TIMESTAMP,
    MAX_TIMESTAMP_AT,
    NO_TIMESTAMP,
    RECORD_COUNT,
    BatchHeader,
    HeaderFields,
)
from ruslo.records.builder import rebuild_batch, set_crc
from ruslo.records.compression import CompressedDataError, DecompressedTooLargeError
from ruslo.records.header_check import longer_than_segment, too_large
from ruslo.records.reader import NO_RECORD_LIMIT, RecordTooLargeError, read_records
from ruslo.records.record import Record
from ruslo.records.rules import (
    KEEP_CODEC,
    MAX_DECODED_RECORDS,
    BatchRefused,
    BatchRules,
    RecordError,
)

NO_LOG_APPEND_TIME = -1

_MAX_RECORD_ERRORS: Final = 1000
"""Record errors per batch; clients fail the other records as well."""
_KNOWN_ATTRIBUTES: Final = 0x7F
_ATTRIBUTES: Final = struct.Struct(">h")
_TIMESTAMP: Final = struct.Struct(">q")


class AcceptedBatch(NamedTuple):
    """A batch that is ready to be appended: the view that was checked, or a changed copy."""

    batch: memoryview
    header: HeaderFields
    log_append_time: int
    """The broker's time on a LogAppendTime topic, else -1; the Produce response has it."""


def validate_records(
    view: memoryview,
    header: HeaderFields,
    rules: BatchRules,
    now_ms: int,
    max_decompressed_bytes: int | None = None,
) -> AcceptedBatch:
    """Decode and check every record of a batch that ``check_batch`` accepted; raises BatchRefused.

    The returned batch has the codec and timestamp type of the topic and the right max timestamp. It is
    changed in place if the view is writable. ``max_decompressed_bytes`` may be less than the rules allow.
    """
    batch = view[: header[LENGTH] + LENGTH_OVERHEAD]
    attributes = header[ATTRIBUTES]
    codec = attributes & CODEC_MASK
    max_bytes = rules.max_decompressed_bytes if max_decompressed_bytes is None else max_decompressed_bytes
    records, errors = _decode_and_check(batch, header, rules, now_ms, max_bytes)
    if errors:
        raise _record_errors(errors)
    if rules.target_codec not in (KEEP_CODEC, codec):
        return _recompress(header, records, rules, now_ms)
    if rules.log_append_time:
        return stamp_log_append_time(batch, header, now_ms)
    max_timestamp = max(record.timestamp for record in records)
    if attributes & LOG_APPEND_TIME or max_timestamp != header[MAX_TIMESTAMP]:
        corrected = _with_timestamp_type(batch, attributes & ~LOG_APPEND_TIME, max_timestamp)
        return AcceptedBatch(corrected, HEADER.unpack_from(corrected), NO_LOG_APPEND_TIME)
    return AcceptedBatch(batch, header, NO_LOG_APPEND_TIME)


def stamp_log_append_time(batch: memoryview, header: HeaderFields, now_ms: int) -> AcceptedBatch:
    """Set the broker's time in the header; readers then ignore the timestamps of the records."""
    stamped = _with_timestamp_type(batch, header[ATTRIBUTES] | LOG_APPEND_TIME, now_ms)
    return AcceptedBatch(stamped, HEADER.unpack_from(stamped), now_ms)


def _decode_and_check(
    batch: memoryview, header: HeaderFields, rules: BatchRules, now_ms: int, max_bytes: int
) -> tuple[list[Record], list[tuple[ErrorCode, RecordError]]]:
    attributes = header[ATTRIBUTES]
    if header[RECORD_COUNT] > MAX_DECODED_RECORDS:
        raise BatchRefused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {header[RECORD_COUNT]} records, over {MAX_DECODED_RECORDS}; send smaller batches",
        )
    earliest = now_ms - rules.before_max_ms
    latest = now_ms + rules.after_max_ms
    # Recompression assigns new offset deltas. Any other batch is stored as it is, and a consumer that fetches
    # an offset without a record would get the same batch again and again.
    codec = attributes & CODEC_MASK
    checks_offsets = rules.target_codec in (KEEP_CODEC, codec)
    longest = rules.max_record_bytes if codec else NO_RECORD_LIMIT
    records: list[Record] = []
    errors: list[tuple[ErrorCode, RecordError]] = []
    try:
        for index, record in enumerate(read_records(batch, max_bytes, longest)):
            if checks_offsets and record.offset != index:
                raise BatchRefused(
                    ErrorCode.UNKNOWN_SERVER_ERROR if codec else ErrorCode.INVALID_RECORD,
                    f"record {index} of the batch has offset delta {record.offset} instead of {index}; "
                    "nothing was appended",
                )
            records.append(record)
            timestamp = record.timestamp
            if rules.requires_keys and record.key is None:
                code = ErrorCode.INVALID_RECORD
                reason = "a record of a compacted topic must have a key"
            elif not rules.log_append_time and timestamp != NO_TIMESTAMP:
                if earliest <= timestamp <= latest:
                    continue
                code = ErrorCode.INVALID_TIMESTAMP
                reason = f"the timestamp {timestamp} is outside the allowed range {earliest} to {latest}"
            elif attributes & LOG_APPEND_TIME:
                code = ErrorCode.INVALID_TIMESTAMP
                reason = "a producer must not set the timestamp type LogAppendTime"
            else:
                continue
            if len(errors) < _MAX_RECORD_ERRORS:
                errors.append((code, RecordError(index, reason)))
    except RecordTooLargeError as error:
        raise BatchRefused(
            ErrorCode.INVALID_RECORD,
            f"{error}, max.decompressed.message.bytes allows {longest}; send smaller records, or raise it",
        ) from error
    except DecompressedTooLargeError as error:
        raise BatchRefused(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
    except CompressedDataError as error:
        raise BatchRefused(ErrorCode.UNKNOWN_SERVER_ERROR, f"{error}; nothing was appended") from error
    except ProtocolError as error:
        raise BatchRefused(ErrorCode.INVALID_RECORD, f"the records are malformed: {error}") from error
    return records, errors


def _record_errors(errors: list[tuple[ErrorCode, RecordError]]) -> BatchRefused:
    codes = {code for code, _ in errors}
    if ErrorCode.INVALID_TIMESTAMP in codes:
        code, what = ErrorCode.INVALID_TIMESTAMP, "an invalid timestamp"
    else:
        code, what = ErrorCode.INVALID_RECORD, "no key in a compacted topic"
    found = tuple(error for _, error in errors)
    message = (
        f"one or more records have {what}; the first is record {found[0].batch_index}: {found[0].message}"
    )
    return BatchRefused(code, message, found)


def _recompress(header: HeaderFields, records: list[Record], rules: BatchRules, now_ms: int) -> AcceptedBatch:
    fields = BatchHeader._make(header)
    attributes = fields.attributes & _KNOWN_ATTRIBUTES & ~(LOG_APPEND_TIME | DELETE_HORIZON)
    if rules.log_append_time:
        fields = fields._replace(attributes=attributes | LOG_APPEND_TIME, max_timestamp=now_ms)
    else:
        fields = fields._replace(attributes=attributes)
    renumbered = [record._replace(offset=index) for index, record in enumerate(records)]
    batch = memoryview(rebuild_batch(fields, renumbered, codec=rules.target_codec, level=rules.target_level))
    if len(batch) > rules.max_message_bytes:
        raise too_large(len(batch), rules)
    if len(batch) > rules.segment_bytes:
        raise longer_than_segment(len(batch), rules)
    appended_at = now_ms if rules.log_append_time else NO_LOG_APPEND_TIME
    return AcceptedBatch(batch, HEADER.unpack_from(batch), appended_at)


def _with_timestamp_type(batch: memoryview, attributes: int, max_timestamp: int) -> memoryview:
    writable = memoryview(bytearray(batch)) if batch.readonly else batch
    _ATTRIBUTES.pack_into(writable, ATTRIBUTES_AT, attributes & _KNOWN_ATTRIBUTES)
    _TIMESTAMP.pack_into(writable, MAX_TIMESTAMP_AT, max_timestamp)
    set_crc(writable)
    return writable
