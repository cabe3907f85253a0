"""Produced batches whose records have to be decoded: small ones on the event loop, the others in a thread.

Decoding takes time for each record, and a small compressed batch may contain many bytes. The connection is
held while the thread decodes, so appends keep the order of the requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ruslo.broker.partitions.partition import Partition
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.produce_codec import TopicRecords
from ruslo.records.batch import ATTRIBUTES, CODEC_MASK, RECORD_COUNT, HeaderFields
from ruslo.records.record_check import AcceptedBatch, validate_records
from ruslo.records.rules import BatchRules

INLINE_BATCH_BYTES = 64 * 1024
INLINE_RECORDS = 4_000
INLINE_DECOMPRESSED_BYTES = 256 * 1024
"""Limits of decoding on the event loop, for all batches of a request: about 10 ms, at most 40 ms."""

Validated: TypeAlias = AcceptedBatch | KafkaError
Position: TypeAlias = tuple[int, int]
"""Index of the topic in the request, and of the partition in the topic."""


@dataclass(frozen=True, slots=True)
class UndecodedBatch:
    position: Position
    index: int
    """The partition's number."""
    partition: Partition
    batch: memoryview
    header: HeaderFields
    rules: BatchRules

    def copy(self) -> UndecodedBatch:
        """The same batch in memory of its own, not in the connection's buffer."""
        batch = memoryview(bytearray(self.batch))
        return UndecodedBatch(self.position, self.index, self.partition, batch, self.header, self.rules)


def undecoded_batches(
    by_topic: Mapping[str | bytes, Mapping[int, Partition]],
    topics: Sequence[TopicRecords],
    view: memoryview,
    now_ms: int,
) -> list[UndecodedBatch]:
    """The batches of a request whose records have to be decoded."""
    found: list[UndecodedBatch] = []
    for topic_at, (topic, listed) in enumerate(topics):
        known = by_topic.get(topic, {})
        for at, (index, start, stop) in enumerate(listed):
            partition = known.get(index)
            if partition is None or start < 0:
                continue
            batch = view[start:stop]
            undecoded = partition.undecoded(batch, now_ms)
            if undecoded is not None:
                found.append(UndecodedBatch((topic_at, at), index, partition, batch, *undecoded))
    return found


def is_small(batches: Sequence[UndecodedBatch]) -> bool:
    return (
        sum(len(each.batch) for each in batches) <= INLINE_BATCH_BYTES
        and sum(each.header[RECORD_COUNT] for each in batches) <= INLINE_RECORDS
    )


def are_uncompressed(batches: Sequence[UndecodedBatch]) -> bool:
    return not any(each.header[ATTRIBUTES] & CODEC_MASK for each in batches)


def validate_small(batches: Sequence[UndecodedBatch], now_ms: int) -> dict[Position, Validated] | None:
    """Validate batches on the event loop; None if that would take too long."""
    if not is_small(batches):
        return None
    max_bytes = INLINE_DECOMPRESSED_BYTES // len(batches)
    validated: dict[Position, Validated] = {}
    for each in batches:
        outcome = _validate(each, now_ms, min(max_bytes, each.rules.max_decompressed_bytes))
        if isinstance(outcome, KafkaError) and outcome.code is ErrorCode.MESSAGE_TOO_LARGE:
            return None
        validated[each.position] = outcome
    return validated


def validate_all(batches: Sequence[UndecodedBatch], now_ms: int) -> dict[Position, Validated]:
    """Validate batches without a time limit; for a thread."""
    return {each.position: _validate(each, now_ms, None) for each in batches}


def _validate(batch: UndecodedBatch, now_ms: int, max_bytes: int | None) -> Validated:
    try:
        return validate_records(batch.batch, batch.header, batch.rules, now_ms, max_bytes)
    except KafkaError as error:
        # The frames of its traceback keep the decompressed records and, in a cycle, the error itself alive.
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)
