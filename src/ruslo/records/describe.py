"""A batch in words, for people who look into a log."""

from __future__ import annotations

from ruslo.records.batch import DELETE_HORIZON, BatchHeader
from ruslo.records.compression import Codec


def describe_batch(header: BatchHeader, valid: bool) -> dict[str, int | str | bool | None]:
    """The fields of a batch by the names that Kafka's dump tool uses, in its order."""
    codec = header.codec
    has_horizon = bool(header.attributes & DELETE_HORIZON)
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.count,
        "baseSequence": header.base_sequence,
        "lastSequence": _last_sequence(header),
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": header.base_timestamp if has_horizon else None,
        "timestampType": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "maxTimestamp": header.max_timestamp,
        "size": header.size,
        "magic": header.magic,
        "compresscodec": Codec(codec).name.lower() if codec <= Codec.ZSTD else f"unknown({codec})",
        "crc": header.crc,
        "isvalid": valid,
    }


def _last_sequence(header: BatchHeader) -> int:
    """Sequences count to 2^31-1 and go on at 0."""
    if header.base_sequence < 0:
        return header.base_sequence
    return (header.base_sequence + header.last_offset_delta) & 0x7FFFFFFF
