"""How acknowledgements of single records become the ranges of a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.machines.share_partition.values import AcknowledgementBatch
from ruslo.model.ids import Uuid
from ruslo.model.topics import TopicPartition


class SharePartitionId(NamedTuple):
    """A partition, by name and by topic id."""

    topic: str
    topic_id: Uuid
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


Acknowledgements: TypeAlias = Mapping[SharePartitionId, list[AcknowledgementBatch]]
"""The ranges to acknowledge at one broker; they do not overlap."""


def acknowledgement_batches(types: Mapping[int, AcknowledgeType]) -> list[AcknowledgementBatch]:
    """Ranges of adjacent offsets: with one type if all of a range have the same, else with one per offset."""
    batches: list[AcknowledgementBatch] = []
    first, run = 0, list[AcknowledgeType]()
    for offset in sorted(types):
        if run and offset != first + len(run):
            batches.append(_batch(first, run))
            run = []
        if not run:
            first = offset
        run.append(types[offset])
    if run:
        batches.append(_batch(first, run))
    return batches


def renews(acknowledgements: Acknowledgements) -> bool:
    """Whether a request with these needs the flag of renewals (KIP-1222)."""
    return any(
        AcknowledgeType.RENEW in batch.types for batches in acknowledgements.values() for batch in batches
    )


def by_topic_id(partitions: Iterable[SharePartitionId]) -> dict[Uuid, list[SharePartitionId]]:
    grouped: dict[Uuid, list[SharePartitionId]] = {}
    for partition in partitions:
        grouped.setdefault(partition.topic_id, []).append(partition)
    return grouped


def _batch(first: int, run: list[AcknowledgeType]) -> AcknowledgementBatch:
    types = (run[0],) if all(each is run[0] for each in run) else tuple(run)
    return AcknowledgementBatch(first, first + len(run) - 1, types)
