"""lz4 frames as Kafka writes and reads them.

* Writing: independent blocks of 64 KiB, no checksums and no content size, so every frame starts with
  ``04 22 4d 18 60 40 82``.
* Reading: any block size; checksums are verified if present. As in Kafka, dependent blocks and wrong header
  checksums are rejected, and bytes after the frame are ignored.
"""

from __future__ import annotations

import lz4.frame  # type: ignore[import-untyped]

from ruslo.model.buffers import ReadBuffer
from ruslo.records.compression import Codec, CompressedDataError, DecompressedTooLargeError

_MAGIC = b"\x04\x22\x4d\x18"
_MAX_HEADER_BYTES = 19
_CHUNK_BYTES = 256 * 1024

DEFAULT_LEVEL = 9
"""KIP-390: level 9 is the fast compressor, any other level the high-compression one."""
_FAST_LEVEL = 0
_MIN_HIGH_LEVEL = 3
_MAX_HIGH_LEVEL = 12


def compress(data: ReadBuffer, level: int | None) -> bytes:
    compressed: bytes = lz4.frame.compress(
        data,
        compression_level=_library_level(DEFAULT_LEVEL if level is None else level),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        content_checksum=False,
        block_checksum=False,
        store_size=False,
    )
    return compressed


def _library_level(level: int) -> int:
    if level == DEFAULT_LEVEL:
        return _FAST_LEVEL
    return min(max(level, _MIN_HIGH_LEVEL), _MAX_HIGH_LEVEL)


def decompress(data: ReadBuffer, max_bytes: int) -> bytes:
    view = memoryview(data)
    _check_frame_header(view[:_MAX_HEADER_BYTES])
    context = lz4.frame.create_decompression_context()
    pieces: list[bytes] = []
    bytes_left = max_bytes
    pos = 0
    complete = False
    while not complete:
        try:
            piece, consumed, complete = lz4.frame.decompress_chunk(
                context, view[pos:], max_length=_CHUNK_BYTES
            )
        except RuntimeError as error:
            raise CompressedDataError(f"not lz4 data: {error}") from error
        bytes_left -= len(piece)
        if bytes_left < 0:
            raise DecompressedTooLargeError(Codec.LZ4, max_bytes)
        pieces.append(piece)
        pos += consumed
        if not piece and not consumed and not complete:
            raise CompressedDataError("an lz4 frame ends before its end mark")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _check_frame_header(start: memoryview) -> None:
    if bytes(start[:4]) != _MAGIC:
        raise CompressedDataError("not lz4 data: it does not start with the magic number of an lz4 frame")
    try:
        info = lz4.frame.get_frame_info(start)
    except RuntimeError as error:
        raise CompressedDataError(f"broken lz4 frame header: {error}") from error
    if info["block_linked"]:
        raise CompressedDataError("the lz4 frame has dependent blocks; Kafka requires independent blocks")
