"""Snappy as Kafka's clients write it: Java in xerial frames, librdkafka as one bare block.

xerial: an 8-byte mark, two int32 versions, then chunks of an int32 length and a raw snappy block each.
"""

from __future__ import annotations

import struct

import cramjam

from ruslo.model.buffers import ReadBuffer
from ruslo.records.compression import Codec, CompressedDataError, DecompressedTooLargeError

_MARK = b"\x82SNAPPY\x00"
_HEADER = _MARK + struct.pack(">ii", 1, 1)
_MARK_AS_LENGTH = _MARK[:4]
_CHUNK_LENGTH = struct.Struct(">i")
_BLOCK_BYTES = 32 * 1024

_MAX_RATIO = 22
"""A copy element spends at least 3 bytes on 64 of output, so no honest block declares more than this."""


def compress(data: ReadBuffer) -> bytes:
    """One xerial stream with blocks of 32 KiB."""
    view = memoryview(data)
    parts: list[bytes | memoryview] = [_HEADER]
    for start in range(0, len(view), _BLOCK_BYTES):
        block = memoryview(cramjam.snappy.compress_raw(view[start : start + _BLOCK_BYTES]))
        parts.append(_CHUNK_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def decompress(data: ReadBuffer, max_bytes: int) -> bytes:
    """Read either form; declared sizes are added up before the first byte is unfolded."""
    view = memoryview(data)
    blocks = _xerial_blocks(view) if bytes(view[: len(_MARK)]) == _MARK else [view]
    sizes = [_declared_size(block) for block in blocks]
    total = sum(sizes)
    if total > max_bytes:
        raise DecompressedTooLargeError(Codec.SNAPPY, max_bytes)
    out = bytearray(total)
    target = memoryview(out)
    pos = 0
    for block, size in zip(blocks, sizes, strict=True):
        try:
            written = cramjam.snappy.decompress_raw_into(block, target[pos : pos + size]) if size else 0
        except cramjam.DecompressionError as error:
            raise CompressedDataError(f"not snappy data: {error}") from error
        if written != size:
            raise CompressedDataError(f"a snappy block declares {size} bytes and unfolds to {written}")
        pos += size
    return bytes(out)


def _xerial_blocks(view: memoryview) -> list[memoryview]:
    blocks: list[memoryview] = []
    end = len(view)
    pos = len(_HEADER)
    if end < pos:
        raise CompressedDataError("the header of a snappy stream is cut off")
    while pos < end:
        if end - pos < _CHUNK_LENGTH.size:
            raise CompressedDataError("a snappy stream is cut off inside the length of a chunk")
        if view[pos : pos + 4] == _MARK_AS_LENGTH:
            # Streams that were concatenated: the next one brings its own header.
            pos += len(_HEADER)
            if pos > end:
                raise CompressedDataError("the header of a snappy stream is cut off")
            continue
        (length,) = _CHUNK_LENGTH.unpack_from(view, pos)
        pos += _CHUNK_LENGTH.size
        if not 0 < length <= end - pos:
            raise CompressedDataError(f"a snappy chunk claims {length} bytes, {end - pos} are left")
        blocks.append(view[pos : pos + length])
        pos += length
    return blocks


def _declared_size(block: memoryview) -> int:
    try:
        size = int(cramjam.snappy.decompress_raw_len(block))
    except cramjam.DecompressionError as error:
        raise CompressedDataError(f"not snappy data: {error}") from error
    if size > len(block) * _MAX_RATIO:
        raise CompressedDataError(f"a snappy block of {len(block)} bytes cannot hold the {size} it declares")
    if not block:
        raise CompressedDataError("snappy data is empty")
    return size
