"""Batches as they stand in the log of ``__consumer_offsets``."""

from __future__ import annotations

from collections.abc import Iterable

from ruslo.broker.coordinators.runtime.record_codec import EncodedRecord
from ruslo.machines.groups.decision import Producer
from ruslo.records.batch import TRANSACTIONAL
from ruslo.records.builder import build_batch
from ruslo.records.record import Record

_BASE_SEQUENCE = 0
"""As Kafka's coordinator writes it, although no producer id goes with it."""


def encode_batch(
    records: Iterable[EncodedRecord], now_ms: int, codec: int, producer: Producer | None
) -> bytearray:
    """Without the offset, which the log gives it."""
    listed = [Record(at, now_ms, key, value) for at, (key, value) in enumerate(records)]
    if producer is None:
        return build_batch(listed, codec=codec, base_sequence=_BASE_SEQUENCE)
    return build_batch(
        listed,
        codec=codec,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=_BASE_SEQUENCE,
        attributes=TRANSACTIONAL,
    )
