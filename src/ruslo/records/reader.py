"""Reads record batches: headers without their records, records of one batch, the checksum.

Malformed bytes only ever raise ``ProtocolError``, which names the base offset of the batch. The reader
accepts what Kafka accepts in its logs (gaps, negative timestamp deltas, batches without records, any record
attributes), and rejects what Kafka rejects: wrong lengths, a wrong count, bytes after the last record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from crc32c import crc32c

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError
from ruslo.records.batch import (
    ATTRIBUTES_AT,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC_AT,
    MAGIC_V2,
    BatchHeader,
    read_header,
)
from ruslo.records.compression import MAX_DECOMPRESSED_BYTES, CompressedDataError, decompress
from ruslo.records.record import HEADER_KEY_ERRORS, Header, Record
from ruslo.records.varint import decode_varint, decode_varlong

NO_RECORD_LIMIT: Final = 2**31 - 9
"""The default of max.decompressed.message.bytes, which no record can reach."""
_INT64_MIN = -(1 << 63)
_INT64_MAX = (1 << 63) - 1


class RecordTooLargeError(ProtocolError):
    """A record is larger than the caller allows."""


def iter_batches(buf: ReadBuffer, pos: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """The position and header of each whole batch; a partial batch at the end is ignored.

    Raises ProtocolError for an invalid header: another magic, or a length below that of the header.
    """
    end = len(buf)
    while end - pos > MAGIC_AT:
        magic = buf[pos + MAGIC_AT]
        if magic != MAGIC_V2:
            raise ProtocolError(f"the batch at byte {pos} has magic {magic}; only {MAGIC_V2} is supported")
        if end - pos < HEADER_SIZE:
            return
        header = read_header(buf, pos)
        size = header.length + LENGTH_OVERHEAD
        if size < HEADER_SIZE:
            raise ProtocolError(
                f"the batch at byte {pos} (offset {header.base_offset}) claims {size} bytes; "
                f"its header alone has {HEADER_SIZE}"
            )
        if end - pos < size:
            return
        yield pos, header
        pos += size


def check_crc(batch: ReadBuffer) -> bool:
    """Whether ``batch`` starts with a whole batch whose checksum is right."""
    if len(batch) < HEADER_SIZE:
        return False
    header = read_header(batch)
    size = header.length + LENGTH_OVERHEAD
    if not HEADER_SIZE <= size <= len(batch):
        return False
    return crc32c(memoryview(batch)[ATTRIBUTES_AT:size]) == header.crc


def read_records(
    batch: ReadBuffer, max_bytes: int = MAX_DECOMPRESSED_BYTES, max_record_bytes: int = NO_RECORD_LIMIT
) -> Iterator[Record]:
    """The records of the batch at the start of ``batch``, with absolute offsets.

    The records are decompressed, to at most ``max_bytes``, when the first one is read. The checksum is not
    verified. A record above ``max_record_bytes`` raises RecordTooLargeError before its fields are copied.
    """
    header = _whole_header(batch)
    base_offset = header.base_offset
    count = header.count
    payload = memoryview(batch)[HEADER_SIZE : header.length + LENGTH_OVERHEAD]
    if count < 0:
        raise ProtocolError(f"the batch at offset {base_offset} claims {count} records")
    if count == 0 and not payload:
        return
    try:
        data = decompress(header.codec, payload, max(max_bytes, 0) if header.codec else len(payload))
    except CompressedDataError as error:
        error.args = (f"the batch at offset {base_offset} cannot be decompressed: {error}",)
        raise
    fixed_timestamp = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    yield from _decode(data, count, base_offset, header.base_timestamp, fixed_timestamp, max_record_bytes)


def _whole_header(batch: ReadBuffer) -> BatchHeader:
    if len(batch) < HEADER_SIZE:
        raise ProtocolError(f"{len(batch)} bytes are not a batch; its header has {HEADER_SIZE}")
    header = BatchHeader._make(HEADER.unpack_from(batch))
    if header.magic != MAGIC_V2:
        raise ProtocolError(
            f"the batch at offset {header.base_offset} has magic {header.magic}; only {MAGIC_V2} is supported"
        )
    if not HEADER_SIZE <= header.size <= len(batch):
        raise ProtocolError(
            f"the batch at offset {header.base_offset} claims {header.size} bytes, {len(batch)} are present"
        )
    return header


def _decode(
    data: bytes,
    count: int,
    base_offset: int,
    base_timestamp: int,
    fixed_timestamp: int | None,
    max_record_bytes: int,
) -> Iterator[Record]:
    """Decode records with inlined varints: compaction and group loading decode millions."""
    end = len(data)
    pos = 0
    index = 0
    new = tuple.__new__
    try:
        for index in range(count):  # noqa: B007 - the error messages name it
            # Each number is nearly always one byte, so that case is inlined.
            byte = data[pos]
            if byte < 0x80:
                length = (byte >> 1) ^ -(byte & 1)
                pos += 1
            else:
                length, pos = decode_varint(data, pos)
            stop = pos + length
            if not 0 <= length <= max_record_bytes or stop > end:
                if max_record_bytes < length <= end - pos:
                    raise RecordTooLargeError(f"it has {length} bytes")
                raise ProtocolError(f"it claims {length} bytes, {end - pos} are left")
            pos += 1  # the attributes of a record, which have no meaning

            byte = data[pos]
            if byte < 0x80:
                timestamp = base_timestamp + ((byte >> 1) ^ -(byte & 1))
                pos += 1
            else:
                delta, pos = decode_varlong(data, pos)
                timestamp = base_timestamp + delta
            if fixed_timestamp is not None:
                timestamp = fixed_timestamp
            elif not _INT64_MIN <= timestamp <= _INT64_MAX:
                raise ProtocolError("its timestamp does not fit into 64 bits")

            byte = data[pos]
            if byte < 0x80:
                offset = base_offset + ((byte >> 1) ^ -(byte & 1))
                pos += 1
            else:
                delta, pos = decode_varint(data, pos)
                offset = base_offset + delta
            if not 0 <= offset <= _INT64_MAX:
                raise ProtocolError(f"its offset would be {offset}")

            byte = data[pos]
            if byte < 0x80:
                length = (byte >> 1) ^ -(byte & 1)
                pos += 1
            else:
                length, pos = decode_varint(data, pos)
            if length < 0:
                key = None
            else:
                key = data[pos : pos + length]
                pos += length

            byte = data[pos]
            if byte < 0x80:
                length = (byte >> 1) ^ -(byte & 1)
                pos += 1
            else:
                length, pos = decode_varint(data, pos)
            if length < 0:
                value = None
            else:
                value = data[pos : pos + length]
                pos += length

            if data[pos]:
                headers, pos = _decode_headers(data, pos, stop)
            else:
                headers = ()
                pos += 1
            if pos != stop:
                raise ProtocolError(f"its fields end at byte {pos} of the records, its length says {stop}")
            yield new(Record, (offset, timestamp, key, value, headers))
    except IndexError:
        raise ProtocolError(
            f"the batch at offset {base_offset} ends in the middle of record {index} of {count}"
        ) from None
    except ProtocolError as error:
        raise type(error)(f"record {index} in the batch at offset {base_offset}: {error}") from None
    if pos != end:
        raise ProtocolError(
            f"{end - pos} bytes follow the last of {count} records in the batch at offset {base_offset}"
        )


def _decode_headers(data: bytes, pos: int, stop: int) -> tuple[tuple[Header, ...], int]:
    count, pos = decode_varint(data, pos)
    # A header has at least two bytes.
    if not 0 <= count <= (stop - pos) // 2:
        raise ProtocolError(f"it claims {count} headers")
    headers: list[Header] = []
    for _ in range(count):
        length, pos = decode_varint(data, pos)
        if length < 0:
            raise ProtocolError("the key of a header is null")
        name = data[pos : pos + length].decode(errors=HEADER_KEY_ERRORS)
        pos += length
        length, pos = decode_varint(data, pos)
        if length < 0:
            headers.append((name, None))
        else:
            headers.append((name, data[pos : pos + length]))
            pos += length
    return tuple(headers), pos
