"""Scans the batches of a segment file or buffer: headers only, or whole batches with their checksums."""

from __future__ import annotations

from collections.abc import Iterator

from crc32c import crc32c

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.records.batch import (
    ATTRIBUTES_AT,
    BASE_OFFSET,
    CRC,
    HEADER,
    HEADER_SIZE,
    LAST_OFFSET_DELTA,
    LENGTH,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_V2,
    HeaderFields,
)
from ruslo.storage.disk import DiskFile

SMALLEST_LENGTH = HEADER_SIZE - LENGTH_OVERHEAD
WALK_BYTES = 8192
"""Bytes per read in a search for one batch: index entries are about 4 KiB apart."""
SCAN_BYTES = 1 << 20
"""Bytes per read in a scan of a whole segment."""


def scan_headers(
    file: DiskFile, position: int, end: int, read_bytes: int = WALK_BYTES
) -> Iterator[tuple[int, HeaderFields]]:
    """Position and header of each whole batch in [position, end), up to the first other bytes."""
    chunk = b""
    chunk_at = position
    unpack = HEADER.unpack_from
    while position + HEADER_SIZE <= end:
        within = position - chunk_at
        if within + HEADER_SIZE > len(chunk):
            chunk = file.pread(min(read_bytes, end - position), position)
            chunk_at, within = position, 0
            if len(chunk) < HEADER_SIZE:
                return
        header: HeaderFields = unpack(chunk, within)
        length = header[LENGTH]
        if length < SMALLEST_LENGTH or header[MAGIC] != MAGIC_V2 or position + length + LENGTH_OVERHEAD > end:
            return
        yield position, header
        position += length + LENGTH_OVERHEAD


def scan_batches(file: DiskFile, end: int) -> Iterator[tuple[int, HeaderFields, memoryview]]:
    """Each sound batch of a file, up to the first that is torn, malformed or fails its CRC."""
    chunk = memoryview(b"")
    chunk_at = position = 0
    unpack = HEADER.unpack_from
    while position + HEADER_SIZE <= end:
        within = position - chunk_at
        if within + HEADER_SIZE > len(chunk):
            chunk = memoryview(file.pread(min(SCAN_BYTES, end - position), position))
            chunk_at, within = position, 0
            if len(chunk) < HEADER_SIZE:
                return
        header: HeaderFields = unpack(chunk, within)
        size = header[LENGTH] + LENGTH_OVERHEAD
        if header[LENGTH] < SMALLEST_LENGTH or header[MAGIC] != MAGIC_V2 or position + size > end:
            return
        if within + size > len(chunk):
            chunk = memoryview(file.pread(max(size, min(SCAN_BYTES, end - position)), position))
            chunk_at, within = position, 0
            if len(chunk) < size:
                return
        batch = chunk[within : within + size]
        if crc32c(batch[ATTRIBUTES_AT:]) != header[CRC]:
            return
        yield position, header, batch
        position += size


def buffer_headers(data: ReadBuffer) -> Iterator[tuple[int, HeaderFields]]:
    """Position and header of each whole batch in a buffer, up to the first other bytes."""
    position, end = 0, len(data)
    while position + HEADER_SIZE <= end:
        header: HeaderFields = HEADER.unpack_from(data, position)
        size = header[LENGTH] + LENGTH_OVERHEAD
        if size < HEADER_SIZE or header[MAGIC] != MAGIC_V2 or position + size > end:
            return
        yield position, header
        position += size


def whole_batches(data: ReadBuffer) -> list[tuple[int, HeaderFields]]:
    """The batches of a buffer; raises KafkaError if it holds anything else."""
    batches = list(buffer_headers(data))
    whole = batches[-1][0] + batches[-1][1][LENGTH] + LENGTH_OVERHEAD if batches else 0
    if whole != len(data):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"the {len(data) - whole} bytes from position {whole} are not a batch"
        )
    return batches


def check_batches(data: ReadBuffer, batches: list[tuple[int, HeaderFields]], next_offset: int) -> None:
    """Check batches that are to be appended as they are: checksums, and offsets that ascend from the log end.

    Raises KafkaError.
    """
    view = memoryview(data)
    for start, header in batches:
        if header[BASE_OFFSET] < next_offset:
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                f"a batch starts at offset {header[BASE_OFFSET]}, below the log end offset {next_offset}",
            )
        if crc32c(view[start + ATTRIBUTES_AT : start + header[LENGTH] + LENGTH_OVERHEAD]) != header[CRC]:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header[BASE_OFFSET]} fails its checksum"
            )
        next_offset = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] + 1
