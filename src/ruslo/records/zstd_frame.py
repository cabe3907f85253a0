"""zstd frames, read with a bound on the output.

Java's writer streams and so leaves the content size out of the frame. The headers of a frame's blocks still
tell an upper bound and where the frame ends; they are walked first, and the frame is then unfolded in one
call into a buffer of at most that size. Frames in a row are one stream and skippable frames are skipped, as
in Java's reader.
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
"""The largest window zstd itself accepts without being told to."""

_RAW, _RLE, _COMPRESSED = 0, 1, 2
_DICTIONARY_ID_BYTES = (0, 1, 2, 4)
_CONTENT_SIZE_BYTES = (0, 2, 4, 8)


def compress(data: ReadBuffer, level: int | None) -> bytes:
    return zstandard.ZstdCompressor(level=DEFAULT_LEVEL if level is None else level).compress(data)


def decompress(data: ReadBuffer, max_bytes: int) -> bytes:
    view = memoryview(data)
    if not view:
        raise CompressedDataError("zstd data is empty; even nothing compresses to a frame")
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    pieces: list[bytes] = []
    room = max_bytes
    pos = 0
    while pos < len(view):
        if _uint(view, pos, 4) & ~0xF == _SKIPPABLE_MAGIC:
            pos += 8 + _uint(view, pos + 4, 4)
            if pos > len(view):
                raise CompressedDataError("a skippable zstd frame is cut off")
            continue
        end, bound, declared = _measure(view, pos)
        if declared is not None and declared > room:
            raise DecompressedTooLargeError(Codec.ZSTD, max_bytes)
        if declared is not None and declared > bound:
            raise CompressedDataError(
                f"a zstd frame declares {declared} bytes, its blocks hold at most {bound}"
            )
        try:
            piece = decompressor.decompress(view[pos:end], max_output_size=max(1, min(bound, room)))
        except zstandard.ZstdError as error:
            if bound > room:
                raise DecompressedTooLargeError(Codec.ZSTD, max_bytes) from error
            raise CompressedDataError(f"not zstd data: {error}") from error
        room -= len(piece)
        if room < 0:
            raise DecompressedTooLargeError(Codec.ZSTD, max_bytes)
        pieces.append(piece)
        pos = end
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _measure(view: memoryview, pos: int) -> tuple[int, int, int | None]:
    """Walk one frame from its magic: where it ends, the most it can unfold to, and the size it declares."""
    if _uint(view, pos, 4) != _MAGIC:
        raise CompressedDataError("not zstd data: it does not begin with the mark of a zstd frame")
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
        # The two-byte form begins to count where the one-byte form ends.
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
        raise CompressedDataError("a zstd frame is cut off")
    return pos, bound, declared


def _uint(view: memoryview, pos: int, size: int) -> int:
    if pos + size > len(view):
        raise CompressedDataError("a zstd frame is cut off")
    return int.from_bytes(view[pos : pos + size], "little")
