"""Finds the sound batches of a segment; a damaged range ends where the next sound batch starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from crc32c import crc32c

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError
from ruslo.records.batch import (
    ATTRIBUTES,
    ATTRIBUTES_AT,
    BASE_OFFSET,
    CODEC_MASK,
    CONTROL,
    CRC,
    HEADER,
    HEADER_SIZE,
    LAST_OFFSET_DELTA,
    LENGTH,
    MAGIC,
    MAGIC_AT,
    MAGIC_V2,
    PRODUCER_ID,
    RECORD_COUNT,
    HeaderFields,
    last_offset_of,
    size_of,
)
from ruslo.records.compression import decompress
from ruslo.records.key_scan import scan_keys
from ruslo.storage.batch_scan import SMALLEST_LENGTH
from ruslo.storage.damage import DamagedRange
from ruslo.storage.disk import DiskFile
from ruslo.storage.header_walk import walk_headers
from ruslo.storage.producer_replay import read_marker

_READ_BYTES = 1 << 20

BatchCheck: TypeAlias = Callable[[HeaderFields, ReadBuffer], str | None]
"""Says what is wrong with a whole batch; None if it is sound."""


def check_batch_checksum(header: HeaderFields, batch: ReadBuffer) -> str | None:
    """As ``check_batch_content``, without decoding the records."""
    return None if crc32c(memoryview(batch)[ATTRIBUTES_AT:]) == header[CRC] else "its checksum is wrong"


def check_batch_content(header: HeaderFields, batch: ReadBuffer) -> str | None:
    """What is wrong with a whole batch; None if it is sound."""
    view = memoryview(batch)
    if crc32c(view[ATTRIBUTES_AT:]) != header[CRC]:
        return "its checksum is wrong"
    attributes, last_delta, count = header[ATTRIBUTES], header[LAST_OFFSET_DELTA], header[RECORD_COUNT]
    if last_delta < 0 or not 0 <= count <= last_delta + 1:
        return f"it claims {count} records and last offset delta {last_delta}"
    if attributes & CONTROL and count > 1 and header[PRODUCER_ID] >= 0:
        return "it is a transaction marker with more than one record"
    body = bytes(view[HEADER_SIZE:])
    try:
        if attributes & CODEC_MASK:
            body = decompress(attributes & CODEC_MASK, body)
        scan_keys(body, count)
        read_marker(batch)
    except ProtocolError as error:
        return str(error)
    return None


@dataclass(frozen=True, slots=True)
class ScannedRange:
    """A sound batch; or, if ``header`` is None, bytes that are not one."""

    position: int
    size: int
    header: HeaderFields | None
    problem: str = ""
    offset: int = -1


def sound_batches(
    file: DiskFile,
    end: int,
    next_offset: int,
    limit: int,
    position: int = 0,
    check: BatchCheck = check_batch_content,
) -> Iterator[ScannedRange]:
    """Scan a segment from a position: sound batches with offsets from ``next_offset`` to below ``limit``, and
    the byte ranges between them."""
    expected: int | None = next_offset
    while position < end:
        try:
            for at, header in walk_headers(file, position, end, expected, limit):
                size = size_of(header)
                problem = check(header, file.pread(size, at))
                if problem is None:
                    yield ScannedRange(at, size, header)
                else:
                    yield ScannedRange(at, size, None, problem, next_offset)
                position, next_offset = at + size, last_offset_of(header) + 1
                expected = next_offset
            return
        except DamagedRange as damaged:
            position = damaged.position
            next_offset = max(next_offset, damaged.first_offset)
        seen, problem = _examine(file, position, end, next_offset, limit, check)
        resume = _find_next_sound(file, position, end, next_offset, limit, seen, check)
        yield ScannedRange(
            position, resume - position, None, problem or "its offsets are out of order", next_offset
        )
        # Whether the next batch continues the damaged range is unknown.
        position, expected = resume, None


def _examine(
    file: DiskFile, position: int, end: int, next_offset: int, limit: int, check: BatchCheck
) -> tuple[HeaderFields | None, str | None]:
    """The header at a position, if it may be a header, and what is wrong with the batch."""
    head = file.pread(HEADER_SIZE, position)
    if len(head) < HEADER_SIZE or position + HEADER_SIZE > end:
        return None, "the file ends inside a header"
    header: HeaderFields = HEADER.unpack(head)
    size = size_of(header)
    if header[LENGTH] < SMALLEST_LENGTH or header[MAGIC] != MAGIC_V2 or position + size > end:
        return None, "no batch starts there, or the file ends inside it"
    if header[BASE_OFFSET] < next_offset or last_offset_of(header) >= limit:
        return header, f"offsets {header[BASE_OFFSET]} to {last_offset_of(header)} are out of order"
    return header, check(header, file.pread(size, position))


def _find_next_sound(
    file: DiskFile,
    position: int,
    end: int,
    next_offset: int,
    limit: int,
    header: HeaderFields | None,
    check: BatchCheck,
) -> int:
    """The position of the next sound batch after a damaged one, or the end."""
    if header is not None:
        after = position + size_of(header)
        if after == end or _examine(file, after, end, next_offset, limit, check)[1] is None:
            return after
    at = position + 1
    magic = bytes([MAGIC_V2])
    while at < end:
        data = file.pread(_READ_BYTES, at)
        found = data.find(magic, MAGIC_AT)
        while found >= 0:
            candidate = at + found - MAGIC_AT
            if _examine(file, candidate, end, next_offset, limit, check)[1] is None:
                return candidate
            found = data.find(magic, found + 1)
        if len(data) <= MAGIC_AT:
            break
        at += len(data) - MAGIC_AT
    return end
