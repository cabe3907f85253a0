"""Compression of a batch's records: Kafka's five codecs behind two functions.

``decompress`` is safe on anything a peer may send: it stops as soon as the output would pass ``max_bytes``
and holds no more than that (and one chunk) until then; the pieces of what fits are joined once. It raises
``DecompressedTooLargeError`` for bombs and its base ``CompressedDataError`` for bytes that are not what the
codec writes.

The libraries behind snappy, lz4 and zstd are imported on first use, because most brokers never touch them.
"""

from __future__ import annotations

import enum
import zlib

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError

MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024
"""How far one batch may unfold unless the caller says otherwise."""

_CHUNK_BYTES = 256 * 1024
_SPOON_BYTES = 16 * 1024
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class Codec(enum.IntEnum):
    """The codec ids of the attribute bits 0-2."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CompressedDataError(ProtocolError):
    """Compressed data that cannot be unfolded."""


class DecompressedTooLargeError(CompressedDataError):
    """Compressed data that would unfold to more than the reader allows."""

    def __init__(self, codec: Codec, max_bytes: int) -> None:
        super().__init__(
            f"{codec.name.lower()} data unfolds to more than the {max_bytes} bytes allowed for one batch; "
            f"send smaller batches"
        )


def compress(codec: int, data: ReadBuffer, level: int | None = None) -> bytes:
    """Compress as Kafka's producer does; ``level`` None is Kafka's default for the codec."""
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        gzip = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
        return gzip.compress(data) + gzip.flush()
    if codec == Codec.SNAPPY:
        from ruslo.records import snappy

        return snappy.compress(data)
    if codec == Codec.LZ4:
        from ruslo.records import lz4_frame

        return lz4_frame.compress(data, level)
    if codec == Codec.ZSTD:
        from ruslo.records import zstd_frame

        return zstd_frame.compress(data, level)
    raise ValueError(f"{codec} is not a compression codec; the codecs are 0 to 4")


def decompress(codec: int, data: ReadBuffer, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Unfold ``data``; raises CompressedDataError if it is malformed or would unfold to more than
    ``max_bytes``."""
    if codec == Codec.NONE:
        if len(data) > max_bytes:
            raise DecompressedTooLargeError(Codec.NONE, max_bytes)
        return bytes(data)
    if codec == Codec.GZIP:
        return _gunzip(data, max_bytes)
    if codec == Codec.SNAPPY:
        from ruslo.records import snappy

        return snappy.decompress(data, max_bytes)
    if codec == Codec.LZ4:
        from ruslo.records import lz4_frame

        return lz4_frame.decompress(data, max_bytes)
    if codec == Codec.ZSTD:
        from ruslo.records import zstd_frame

        return zstd_frame.decompress(data, max_bytes)
    raise CompressedDataError(f"codec {codec} does not exist; the codecs are 0 to 4")


def _gunzip(data: ReadBuffer, max_bytes: int) -> bytes:
    """Several gzip members in a row are one stream, as for Java's reader."""
    view = memoryview(data)
    pieces: list[bytes] = []
    room = max_bytes
    pos = 0
    member = zlib.decompressobj(_GZIP_WINDOW)
    while pos < len(view) or not member.eof:
        if member.eof:
            member = zlib.decompressobj(_GZIP_WINDOW)
        # zlib hands back a copy of what it did not use, so it is fed in small spoons.
        spoon = view[pos : pos + _SPOON_BYTES]
        try:
            piece = member.decompress(spoon, _CHUNK_BYTES)
        except zlib.error as error:
            raise CompressedDataError(f"not gzip data: {error}") from error
        consumed = len(spoon) - len(member.unconsumed_tail) - len(member.unused_data)
        pos += consumed
        room -= len(piece)
        if room < 0:
            raise DecompressedTooLargeError(Codec.GZIP, max_bytes)
        if piece:
            pieces.append(piece)
        elif not consumed and not member.eof:
            raise CompressedDataError("gzip data ends before its checksum")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
