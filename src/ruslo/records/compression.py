"""Compression of record batches: Kafka's five codecs behind two functions.

``decompress`` is safe for any input: it stops when the output would exceed ``max_bytes``, and needs no more
memory than that and one chunk. It raises ``DecompressedTooLargeError`` for decompression bombs, and its base
``CompressedDataError`` for malformed data.

The libraries for snappy, lz4 and zstd are imported on first use, because most brokers never need them.
"""

from __future__ import annotations

import enum
import zlib

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError

MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024
"""Default limit of the decompressed size of a batch."""

_CHUNK_BYTES = 256 * 1024
_INPUT_BYTES = 16 * 1024
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class Codec(enum.IntEnum):
    """The codec ids of the attribute bits 0-2."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CompressedDataError(ProtocolError):
    """Compressed data that cannot be decompressed."""


class DecompressedTooLargeError(CompressedDataError):
    """Compressed data whose decompressed size exceeds the limit."""

    def __init__(self, codec: Codec, max_bytes: int) -> None:
        super().__init__(
            f"{codec.name.lower()} data decompresses to more than the {max_bytes} bytes allowed for a batch; "
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
    """Decompress ``data``; raises CompressedDataError if it is malformed or decompresses to more than
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
    """Decompress consecutive gzip members as one stream, as Java does."""
    view = memoryview(data)
    pieces: list[bytes] = []
    bytes_left = max_bytes
    pos = 0
    member = zlib.decompressobj(_GZIP_WINDOW)
    while pos < len(view) or not member.eof:
        if member.eof:
            member = zlib.decompressobj(_GZIP_WINDOW)
        # zlib returns a copy of the input that it did not use, so it gets small chunks.
        chunk = view[pos : pos + _INPUT_BYTES]
        try:
            piece = member.decompress(chunk, _CHUNK_BYTES)
        except zlib.error as error:
            raise CompressedDataError(f"not gzip data: {error}") from error
        consumed = len(chunk) - len(member.unconsumed_tail) - len(member.unused_data)
        pos += consumed
        bytes_left -= len(piece)
        if bytes_left < 0:
            raise DecompressedTooLargeError(Codec.GZIP, max_bytes)
        if piece:
            pieces.append(piece)
        elif not consumed and not member.eof:
            raise CompressedDataError("gzip data ends before its checksum")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
