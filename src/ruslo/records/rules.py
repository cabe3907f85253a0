"""The rules of a topic for produced batches, computed from its config."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.records.batch import CODEC_MASK, LENGTH_OVERHEAD, LOG_APPEND_TIME
from ruslo.records.compression import MAX_DECOMPRESSED_BYTES, Codec
from ruslo.records.reader import NO_RECORD_LIMIT

KEEP_CODEC = -1
MAX_DECODED_RECORDS = 100_000
"""Records of a batch that is decoded: 0.2 to 0.4 s of CPU time, 0.6 to 1.1 s with recompression. Larger
batches are rejected, if they must be decoded, with the error that makes clients split a batch."""

_CODEC_BY_NAME = {
    "producer": KEEP_CODEC,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class TopicSettings(Protocol):
    """The topic configs that the rules need; LogConfig of ``ruslo.config`` has them."""

    @property
    def max_decompressed_message_bytes(self) -> int: ...
    @property
    def max_message_bytes(self) -> int: ...
    @property
    def segment_bytes(self) -> int: ...
    @property
    def message_timestamp_type(self) -> str: ...
    @property
    def message_timestamp_before_max_ms(self) -> int: ...
    @property
    def message_timestamp_after_max_ms(self) -> int: ...
    @property
    def compression_type(self) -> str: ...
    @property
    def compression_gzip_level(self) -> int: ...
    @property
    def compression_lz4_level(self) -> int: ...
    @property
    def compression_zstd_level(self) -> int: ...
    @property
    def cleanup_policy(self) -> Sequence[str]: ...
    @property
    def ruslo_record_validation(self) -> str: ...


@dataclass(frozen=True, slots=True)
class BatchRules:
    """Plain attributes, because the check of every produced batch reads them."""

    max_message_bytes: int
    segment_bytes: int
    max_length: int
    """The largest length that both limits above allow."""
    log_append_time: bool
    before_max_ms: int
    after_max_ms: int
    target_codec: int
    """The codec of every stored batch, or KEEP_CODEC."""
    target_level: int | None
    requires_keys: bool
    decodes_all: bool
    """Whether the records of every batch are decoded, not only if the header is suspicious."""
    decoded_attributes: int = LOG_APPEND_TIME
    """Bits of a batch's attributes; the records of a batch with one of them are decoded."""
    max_record_bytes: int = NO_RECORD_LIMIT
    """The limit of a record in a compressed batch."""
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES

    @classmethod
    def of(cls, settings: TopicSettings) -> BatchRules:
        requires_keys = "compact" in settings.cleanup_policy
        limits_records = settings.max_decompressed_message_bytes < NO_RECORD_LIMIT
        target_codec = _CODEC_BY_NAME[settings.compression_type]
        level_by_codec = {
            Codec.GZIP: settings.compression_gzip_level,
            Codec.LZ4: settings.compression_lz4_level,
            Codec.ZSTD: settings.compression_zstd_level,
        }
        return cls(
            max_message_bytes=settings.max_message_bytes,
            segment_bytes=settings.segment_bytes,
            max_length=min(settings.max_message_bytes, settings.segment_bytes) - LENGTH_OVERHEAD,
            log_append_time=settings.message_timestamp_type == "LogAppendTime",
            before_max_ms=settings.message_timestamp_before_max_ms,
            after_max_ms=settings.message_timestamp_after_max_ms,
            target_codec=target_codec,
            target_level=level_by_codec.get(Codec(target_codec)) if target_codec != KEEP_CODEC else None,
            requires_keys=requires_keys,
            decodes_all=requires_keys or settings.ruslo_record_validation == "full",
            decoded_attributes=LOG_APPEND_TIME | (CODEC_MASK if limits_records else 0),
            max_record_bytes=settings.max_decompressed_message_bytes,
        )


class RecordError(NamedTuple):
    """The error of one record of a rejected batch (KIP-467)."""

    batch_index: int
    message: str


class BatchRefused(KafkaError):
    """A produced batch was rejected: code, message and the errors of its records."""

    def __init__(self, code: ErrorCode, message: str, record_errors: tuple[RecordError, ...] = ()) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors
