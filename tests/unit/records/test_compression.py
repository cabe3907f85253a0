from __future__ import annotations

import random
import struct
import subprocess
import sys
import tracemalloc
import zlib

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ruslo.model.errors import ProtocolError
from ruslo.records.compression import (
    Codec,
    CompressedDataError,
    DecompressedTooLargeError,
    compress,
    decompress,
)

COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"".join(b"event %d of a stream; " % index for index in range(20_000))


@pytest.mark.parametrize("codec", Codec)
@given(data=st.binary(max_size=2000))
def test_round_trip(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_and_many_blocks(codec: Codec, kind: type[bytes]) -> None:
    compressed = compress(codec, kind(TEXT))
    assert len(compressed) < len(TEXT) / 3
    assert decompress(codec, kind(compressed), len(TEXT)) == TEXT


@pytest.mark.parametrize("codec", COMPRESSING)
def test_the_limit_is_exact(codec: Codec) -> None:
    compressed = compress(codec, TEXT)
    with pytest.raises(DecompressedTooLargeError, match="send smaller batches"):
        decompress(codec, compressed, len(TEXT) - 1)


def test_uncompressed_data_has_the_same_limit() -> None:
    with pytest.raises(DecompressedTooLargeError):
        decompress(Codec.NONE, b"12345", 4)


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_unknown_codecs(codec: int) -> None:
    with pytest.raises(CompressedDataError, match="does not exist"):
        decompress(codec, b"", 10)
    with pytest.raises(ValueError, match="not a compression codec"):
        compress(codec, b"")


@pytest.mark.parametrize("codec", COMPRESSING)
def test_every_truncation_is_detected(codec: Codec) -> None:
    compressed = compress(codec, TEXT[:3000])
    for end in range(len(compressed)):
        if codec == Codec.SNAPPY and end == 16:
            continue  # a xerial stream has no end mark: the header alone is an empty stream
        with pytest.raises(CompressedDataError):
            decompress(codec, compressed[:end], 10_000)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_damage_raises_only_protocol_errors(codec: Codec) -> None:
    rng = random.Random(int(codec))
    original = compress(codec, TEXT[:2000])
    for _ in range(1500):
        damaged = bytearray(original)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            data = decompress(codec, damaged, 5000)
        except ProtocolError:
            continue
        assert len(data) <= 5000


@pytest.mark.parametrize("codec", COMPRESSING)
def test_decompression_bomb_is_stopped_early(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 << 20))
    limit = 1 << 20
    tracemalloc.start()
    try:
        with pytest.raises(DecompressedTooLargeError):
            decompress(codec, bomb, limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * limit


def test_a_streamed_zstd_bomb_without_content_size() -> None:
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    bomb = stream.compress(bytes(64 << 20)) + stream.flush()
    with pytest.raises(DecompressedTooLargeError):
        decompress(Codec.ZSTD, bomb, 1 << 20)


class TestGzip:
    @pytest.mark.parametrize("level", [-1, 1, 9])
    def test_levels(self, level: int) -> None:
        assert zlib.decompress(compress(Codec.GZIP, TEXT, level), 31) == TEXT

    def test_consecutive_members(self) -> None:
        two = compress(Codec.GZIP, b"one ") + compress(Codec.GZIP, b"two")
        assert decompress(Codec.GZIP, two, 100) == b"one two"

    def test_wrong_checksum(self) -> None:
        broken = bytearray(compress(Codec.GZIP, b"abc"))
        broken[-8] ^= 1
        with pytest.raises(CompressedDataError, match="not gzip data"):
            decompress(Codec.GZIP, broken, 100)


class TestSnappy:
    def test_java_s_framing(self) -> None:
        compressed = compress(Codec.SNAPPY, bytes(40_000))
        assert compressed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
        (first,) = struct.unpack_from(">i", compressed, 16)
        assert cramjam.snappy.decompress_raw_len(compressed[20 : 20 + first]) == 32 * 1024

    def test_a_raw_block_as_librdkafka_writes_it(self) -> None:
        assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), len(TEXT)) == TEXT

    def test_concatenated_streams(self) -> None:
        two = compress(Codec.SNAPPY, b"one ") + compress(Codec.SNAPPY, b"two")
        assert decompress(Codec.SNAPPY, two, 100) == b"one two"

    def test_a_small_block_that_declares_gigabytes(self) -> None:
        with pytest.raises(CompressedDataError, match="cannot hold"):
            decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0fabc", 2**32)

    @pytest.mark.parametrize("length", [0, -1, 5, 2**31 - 1])
    def test_invalid_chunk_lengths(self, length: int) -> None:
        stream = b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, length) + b"abcd"
        with pytest.raises(CompressedDataError, match="claims"):
            decompress(Codec.SNAPPY, stream, 100)


class TestLz4:
    def test_kafka_s_frame_header(self) -> None:
        assert compress(Codec.LZ4, TEXT)[:7].hex() == "04224d18604082"
        assert compress(Codec.LZ4, b"")[:7].hex() == "04224d18604082"

    @pytest.mark.parametrize("level", range(1, 18))
    def test_levels(self, level: int) -> None:
        compressed = compress(Codec.LZ4, TEXT[:100_000], level)
        assert compressed[:7].hex() == "04224d18604082"
        assert lz4.frame.decompress(compressed) == TEXT[:100_000]

    def test_level_9_is_the_fast_one(self) -> None:
        assert compress(Codec.LZ4, TEXT, 9) == compress(Codec.LZ4, TEXT)
        assert len(compress(Codec.LZ4, TEXT, 8)) < len(compress(Codec.LZ4, TEXT, 9))

    def test_dependent_blocks_are_rejected(self) -> None:
        linked = lz4.frame.compress(TEXT, block_linked=True)
        with pytest.raises(CompressedDataError, match="dependent blocks"):
            decompress(Codec.LZ4, linked, len(TEXT))

    def test_wrong_header_checksum(self) -> None:
        broken = bytearray(compress(Codec.LZ4, TEXT))
        broken[6] ^= 1
        with pytest.raises(CompressedDataError, match="headerChecksum"):
            decompress(Codec.LZ4, broken, len(TEXT))

    @pytest.mark.parametrize("block_size", [4, 5, 6, 7])
    def test_other_block_sizes_and_checksums_are_read(self, block_size: int) -> None:
        frame = lz4.frame.compress(
            TEXT, block_linked=False, block_size=block_size, content_checksum=True, block_checksum=True
        )
        assert decompress(Codec.LZ4, frame, len(TEXT)) == TEXT
        broken = bytearray(frame)
        broken[-1] ^= 1
        with pytest.raises(CompressedDataError, match="hecksum"):
            decompress(Codec.LZ4, broken, len(TEXT))

    def test_bytes_after_the_frame_are_ignored(self) -> None:
        assert decompress(Codec.LZ4, compress(Codec.LZ4, b"abc") + b"junk", 100) == b"abc"


class TestZstd:
    @pytest.mark.parametrize("level", [-100, 1, 3, 19])
    def test_levels(self, level: int) -> None:
        assert zstandard.decompress(compress(Codec.ZSTD, TEXT, level)) == TEXT

    @pytest.mark.parametrize("checksum", [True, False])
    @pytest.mark.parametrize("size", [0, 1, 255, 256, 65_791, 65_792, len(TEXT)])
    def test_streams_without_content_size(self, size: int, checksum: bool) -> None:
        compressor = zstandard.ZstdCompressor(write_content_size=False, write_checksum=checksum)
        stream = compressor.compressobj()
        frame = stream.compress(TEXT[:size]) + stream.flush()
        assert decompress(Codec.ZSTD, frame, size) == TEXT[:size]

    @pytest.mark.parametrize("size", [0, 1, 255, 256, 65_791, 65_792, len(TEXT)])
    def test_frames_with_content_size(self, size: int) -> None:
        frame = zstandard.ZstdCompressor(write_content_size=True).compress(TEXT[:size])
        assert decompress(Codec.ZSTD, frame, size) == TEXT[:size]

    def test_consecutive_and_skippable_frames(self) -> None:
        skippable = struct.pack("<II", 0x184D2A53, 5) + b"notes"
        frames = compress(Codec.ZSTD, b"one ") + skippable + compress(Codec.ZSTD, b"two")
        assert decompress(Codec.ZSTD, frames, 100) == b"one two"

    def test_a_frame_that_declares_more_than_its_blocks_hold(self) -> None:
        # Single segment, 8-byte content size of a gigabyte, one raw block of one byte.
        frame = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 30) + b"\x09\x00\x00x"
        with pytest.raises(CompressedDataError, match="at most 1"):
            decompress(Codec.ZSTD, frame, 1 << 31)


def test_codec_libraries_are_loaded_on_first_use() -> None:
    script = (
        "import sys, ruslo.records.reader, ruslo.records.builder, ruslo.records.validation; "
        "print([name for name in ('lz4', 'zstandard', 'cramjam') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout.strip() == "[]"
