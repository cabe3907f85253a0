"""zstd frames, decompressed with a limit on the output.

Java's streaming writer does not set the content size of a frame. The headers of its blocks give an upper
bound and the end of the frame: they are read first, and the frame is then decompressed with one call. As in
Java, consecutive frames are one stream, and skippable frames are skipped.
"""

from __future__ import annotations

import zstandard

from ruslo.model.buffers import ReadBuffer
from ruslo.records.compression import Codec, CompressedDataError, DecompressedTooLargeError

DEFAULT_LEVEL = 3

_MAGIC = 0xFD2FB528
_SKIPPABLE_MAGIC = 0x184D2A50
_MAX_BLOCK_BYTES = 128 * 1024
_MAX_WINDOW_BYTES = 1 << 27
"""The largest window that zstd accepts by default."""

_RAW, _RLE, _COMPRESSED = 0, 1, 2
_DICTIONARY_ID_BYTES = (0, 1, 2, 4)
_CONTENT_SIZE_BYTES = (0, 2, 4, 8)


def compress(data: ReadBuffer, level: int | None) -> bytes:
    return zstandard.ZstdCompressor(level=DEFAULT_LEVEL if level is None else level).compress(data)


def decompress(data: ReadBuffer, max_bytes: int) -> bytes:
    view = memoryview(data)
    if not view:
        raise CompressedDataError("zstd data is empty")
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    pieces: list[bytes] = []
    bytes_left = max_bytes
    pos = 0
    while pos < len(view):
        if _uint(view, pos, 4) & ~0xF == _SKIPPABLE_MAGIC:
            pos += 8 + _uint(view, pos + 4, 4)
            if pos > len(view):
                raise CompressedDataError("a skippable zstd frame is truncated")
            continue
        end, bound, declared = _measure(view, pos)
        if declared is not None and declared > bytes_left:
            raise DecompressedTooLargeError(Codec.ZSTD, max_bytes)
        if declared is not None and declared > bound:
            raise CompressedDataError(
                f"a zstd frame declares {declared} bytes, its blocks hold at most {bound}"
            )
        try:
            piece = decompressor.decompress(view[pos:end], max_output_size=max(1, min(bound, bytes_left)))
        except zstandard.ZstdError as error:
            if bound > bytes_left:
                raise DecompressedTooLargeError(Codec.ZSTD, max_bytes) from error
            raise CompressedDataError(f"not zstd data: {error}") from error
        bytes_left -= len(piece)
        if bytes_left < 0:
            raise DecompressedTooLargeError(Codec.ZSTD, max_bytes)
        pieces.append(piece)
        pos = end
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _measure(view: memoryview, pos: int) -> tuple[int, int, int | None]:
    """The end of a frame, the upper bound of its decompressed size, and the size that it declares."""
    if _uint(view, pos, 4) != _MAGIC:
        raise CompressedDataError("not zstd data: it does not start with the magic number of a zstd frame")
    descriptor = _uint(view, pos + 4, 1)
    pos += 5
    single_segment = descriptor & 0x20
    if not single_segment:
        pos += 1
    pos += _DICTIONARY_ID_BYTES[descriptor & 0x03]
    size_bytes = _CONTENT_SIZE_BYTES[descriptor >> 6]
    if single_segment and not size_bytes:
        size_bytes = 1
    declared = None
    if size_bytes:
        # The two-byte form counts from 256.
        declared = _uint(view, pos, size_bytes) + (256 if size_bytes == 2 else 0)
        pos += size_bytes
    bound = 0
    last = False
    while not last:
        block = _uint(view, pos, 3)
        pos += 3
        last = bool(block & 1)
        kind = block >> 1 & 3
        size = block >> 3
        if kind > _COMPRESSED or size > _MAX_BLOCK_BYTES:
            raise CompressedDataError(f"broken zstd block header at byte {pos - 3}")
        bound += _MAX_BLOCK_BYTES if kind == _COMPRESSED else size
        pos += 1 if kind == _RLE else size
    if descriptor & 0x04:
        pos += 4
    if pos > len(view):
        raise CompressedDataError("a zstd frame is truncated")
    return pos, bound, declared


def _uint(view: memoryview, pos: int, size: int) -> int:
    if pos + size > len(view):
        raise CompressedDataError("a zstd frame is truncated")
    return int.from_bytes(view[pos : pos + size], "little")
