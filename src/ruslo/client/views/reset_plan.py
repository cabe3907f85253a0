"""Plans an offset reset of a group: one move per partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ruslo.client.admin.admin import Admin
from ruslo.client.views.position import AtOffset, AtStart, AtTime, BeforeEnd, Position
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition


class ToCurrent(NamedTuple):
    """Keep the committed offset; the end offset for partitions without one."""


class ShiftBy(NamedTuple):
    records: int


class ToGiven(NamedTuple):
    offsets: Mapping[TopicPartition, int]


Target: TypeAlias = Position | ToCurrent | ShiftBy | ToGiven


@dataclass(frozen=True, slots=True)
class Move:
    partition: TopicPartition
    current: int | None
    new: int
    end: int
    wanted: int
    """The requested offset; ``new`` is the nearest valid offset."""

    @property
    def skipped(self) -> int | None:
        """The number of offsets that the group skips; None without a committed offset."""
        return None if self.current is None else max(0, self.new - self.current)

    @property
    def replayed(self) -> int | None:
        """The number of offsets that the group reads again; None without a committed offset."""
        return None if self.current is None else max(0, self.current - self.new)

    @property
    def note(self) -> str | None:
        if self.wanted == self.new:
            return None
        bound = "first" if self.wanted < self.new else "last"
        return f"{self.wanted} requested, {bound} is {self.new}"

    def as_json(self) -> dict[str, object]:
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "current_offset": self.current,
            "new_offset": self.new,
            "end_offset": self.end,
            "skipped": self.skipped,
            "replayed": self.replayed,
            "wanted_offset": self.wanted,
        }


async def make_plan(
    admin: Admin, partitions: Sequence[TopicPartition], current: Mapping[TopicPartition, int], target: Target
) -> list[Move]:
    """One move per partition, limited to its valid offsets, as in Kafka's tool."""
    ranges = await admin.offsets.ranges(partitions)
    by_time: Mapping[TopicPartition, int] = {}
    if isinstance(target, AtTime):
        found = await admin.offsets.find(dict.fromkeys(partitions, target.timestamp_ms))
        # All records are older than the timestamp, so the target is the end offset.
        by_time = {p: listed.offset if listed.offset >= 0 else ranges[p][1] for p, listed in found.items()}
    moves = []
    for partition in partitions:
        first, end = ranges[partition]
        wanted = _wanted(partition, target, first, end, current.get(partition), by_time)
        moves.append(Move(partition, current.get(partition), min(max(wanted, first), end), end, wanted))
    return moves


def _wanted(
    partition: TopicPartition,
    target: Target,
    first: int,
    end: int,
    current: int | None,
    by_time: Mapping[TopicPartition, int],
) -> int:
    match target:
        case AtStart():
            return first
        case BeforeEnd(records):
            return end - records
        case ToCurrent():
            return end if current is None else current
        case AtOffset(offset):
            return offset
        case ShiftBy(records):
            if current is None:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"{partition} has no committed offset to shift: name partitions with a committed offset, "
                    "or reset to an offset or a time",
                )
            return current + records
        case AtTime(_):
            return by_time[partition]
        case ToGiven(offsets):
            return offsets[partition]
