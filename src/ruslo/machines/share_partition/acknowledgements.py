"""Checks acknowledgement batches before any record changes."""

from __future__ import annotations

from collections.abc import Iterator

from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.machines.share_partition.values import AcknowledgementBatch, TypeRun
from ruslo.model.errors import ErrorCode, KafkaError

_BY_VALUE = {int(each): each for each in AcknowledgeType}


def check_batch(batch: AcknowledgementBatch, start_offset: int, end_offset: int) -> None:
    """Raise INVALID_REQUEST for a batch that no consumer may send; INVALID_RECORD_STATE as Kafka does if no
    record is in flight."""
    if batch.first < 0 or batch.last < batch.first:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The acknowledged offsets {batch.first} to {batch.last} are not a range.",
        )
    if batch.last >= end_offset:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST if end_offset > start_offset else ErrorCode.INVALID_RECORD_STATE,
            f"Offset {batch.last} cannot be acknowledged: no record from {end_offset} on was acquired.",
        )
    size = batch.last - batch.first + 1
    if len(batch.types) not in (1, size):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{len(batch.types)} acknowledge types do not fit {size} offsets. Send one, or one per offset.",
        )
    for value in batch.types:
        if value not in _BY_VALUE:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Acknowledge type {value} does not exist.")


def runs_of(batch: AcknowledgementBatch, start_offset: int) -> Iterator[TypeRun]:
    """The runs of equal types; what is before the start offset is left out, because it needs no response."""
    if len(batch.types) == 1:
        if batch.last >= start_offset:
            yield TypeRun(max(batch.first, start_offset), batch.last, _BY_VALUE[batch.types[0]])
        return
    types = batch.types
    begin, end = max(start_offset - batch.first, 0), len(types)
    for at in range(begin + 1, end + 1):
        if at == end or types[at] != types[begin]:
            yield TypeRun(batch.first + begin, batch.first + at - 1, _BY_VALUE[types[begin]])
            begin = at
