"""The plan of a micro-batch of a share group, as the JSON that Spark keeps in its checkpoint as an offset.

``{"batch": 7, "acquired": [{"topic": "orders", "id": "…", "partition": 0, "ranges": [[5, 9, 1]]}],
"unaccepted": []}``

- ``acquired`` are the records of the batch: first offset, last offset and delivery count. Spark plans a batch
  again from its checkpoint after a failure, so the batch has the same records, whatever the group has done
  with them meanwhile.
- ``unaccepted`` are records of earlier batches that are processed, but whose acknowledgement failed or is
  unknown. The group delivers them again, and the source accepts them without another delivery.
- ``batch`` distinguishes two batches of the same records: Spark compares offsets as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ruslo.client.share.acknowledgements import SharePartitionId
from ruslo.machines.share_partition.values import AcquiredRange
from ruslo.model.errors import ConfigError
from ruslo.model.ids import uuid_from_text, uuid_to_text
from ruslo.pipeline.source.share.offset_ranges import OffsetRanges, union


class _Partition(msgspec.Struct):
    topic: str
    id: str
    partition: int
    ranges: list[list[int]]

    def key(self) -> SharePartitionId:
        return SharePartitionId(self.topic, uuid_from_text(self.id), self.partition)


class _Plan(msgspec.Struct):
    batch: int
    acquired: list[_Partition]
    unaccepted: list[_Partition]


@dataclass(frozen=True, slots=True)
class SharePlan:
    batch: int = 0
    acquired: Mapping[SharePartitionId, tuple[AcquiredRange, ...]] = field(default_factory=dict)
    unaccepted: Mapping[SharePartitionId, OffsetRanges] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: object) -> SharePlan:
        """Accepts the dict parsed from Spark's text; raises ConfigError for anything else."""
        try:
            plan = msgspec.convert(value, _Plan)
            return cls(
                plan.batch,
                {
                    each.key(): tuple(AcquiredRange(*numbers) for numbers in each.ranges)
                    for each in plan.acquired
                },
                {each.key(): tuple((first, last) for first, last in each.ranges) for each in plan.unaccepted},
            )
        except (msgspec.ValidationError, ValueError, TypeError) as error:
            raise ConfigError(
                f"the checkpoint contains offsets of another source ({error}): {json.dumps(value)}; use a "
                "checkpoint of a query with the same share.group.id, or a new one"
            ) from error

    def to_json(self) -> dict[str, Any]:
        return {
            "batch": self.batch,
            "acquired": _listed(self.acquired),
            "unaccepted": _listed(self.unaccepted),
        }

    def offsets(self) -> dict[SharePartitionId, OffsetRanges]:
        """The offsets of the batch."""
        return {
            partition: union((each.first, each.last) for each in ranges)
            for partition, ranges in self.acquired.items()
        }


def merged(ranges: Iterable[AcquiredRange]) -> tuple[AcquiredRange, ...]:
    """Sorted, and adjacent ranges with the same delivery count joined."""
    found: list[AcquiredRange] = []
    for each in sorted(ranges):
        previous = found[-1] if found else None
        if (
            previous is not None
            and previous.last + 1 == each.first
            and previous.delivery_count == each.delivery_count
        ):
            found[-1] = previous._replace(last=each.last)
        else:
            found.append(each)
    return tuple(found)


def _listed(ranges: Mapping[SharePartitionId, Iterable[tuple[int, ...]]]) -> list[dict[str, object]]:
    return [
        {
            "topic": partition.topic,
            "id": uuid_to_text(partition.topic_id),
            "partition": partition.partition,
            "ranges": [list(each) for each in listed],
        }
        for partition, listed in sorted(ranges.items())
    ]
