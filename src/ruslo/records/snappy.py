"""Snappy as Kafka's clients write it: Java in xerial frames, librdkafka as one raw block.

xerial: an 8-byte magic number, two int32 versions, then chunks of an int32 length and a raw snappy block.
"""

from __future__ import annotations

import struct

import cramjam

from ruslo.model.buffers import ReadBuffer
from ruslo.records.compression import Codec, CompressedDataError, DecompressedTooLargeError

_MAGIC = b"\x82SNAPPY\x00"
_HEADER = _MAGIC + struct.pack(">ii", 1, 1)
_MAGIC_AS_LENGTH = _MAGIC[:4]
_CHUNK_LENGTH = struct.Struct(">i")
_BLOCK_BYTES = 32 * 1024

_MAX_RATIO = 22
"""A copy element takes at least 3 bytes for 64 bytes of output, so a valid block cannot exceed this ratio."""


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
    """Decompress either form; the declared sizes are checked before the first byte is decompressed."""
    view = memoryview(data)
    blocks = _xerial_blocks(view) if bytes(view[: len(_MAGIC)]) == _MAGIC else [view]
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
            raise CompressedDataError(f"a snappy block declares {size} bytes but decompresses to {written}")
        pos += size
    return bytes(out)


def _xerial_blocks(view: memoryview) -> list[memoryview]:
    blocks: list[memoryview] = []
    end = len(view)
    pos = len(_HEADER)
    if end < pos:
        raise CompressedDataError("the header of a snappy stream is truncated")
    while pos < end:
        if end - pos < _CHUNK_LENGTH.size:
            raise CompressedDataError("a snappy stream ends inside the length of a chunk")
        if view[pos : pos + 4] == _MAGIC_AS_LENGTH:
            # Streams were concatenated: the next one has its own header.
            pos += len(_HEADER)
            if pos > end:
                raise CompressedDataError("the header of a snappy stream is truncated")
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
