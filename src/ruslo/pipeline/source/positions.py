"""The start and end positions of a query: parsed from options, resolved to offsets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from ruslo.client.admin.offsets import Offsets, Spec
from ruslo.model.errors import ConfigError
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.option_values import OptionValues, parse_by_partition

EARLIEST: Final = int(Spec.EARLIEST)
LATEST: Final = int(Spec.LATEST)
_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}
_NAMES: Final = {"earliest": "earliest (-2)", "latest": "latest (-1)"}

Side = Literal["starting", "ending"]


@dataclass(frozen=True, slots=True)
class Positions:
    """One number for all partitions or one for each: offsets (-2 earliest, -1 latest) or times in ms."""

    everywhere: int | None
    by_partition: Mapping[TopicPartition, int] = field(default_factory=dict)
    are_times: bool = False
    option: str = "startingOffsets"
    latest_when_too_young: bool = True
    """Whether a time after the newest record resolves to the end of the log, or is an error."""

    def of(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        if self.everywhere is not None:
            return dict.fromkeys(partitions, self.everywhere)
        unnamed = [str(partition) for partition in partitions if partition not in self.by_partition]
        absent = [str(partition) for partition in self.by_partition if partition not in partitions]
        if unnamed or absent:
            problem = (
                f"does not name {', '.join(unnamed)}"
                if unnamed
                else f"names {', '.join(absent)}, which the query does not read"
            )
            raise ConfigError(f"{self.option} {problem}: name exactly the partitions of the query")
        return {partition: self.by_partition[partition] for partition in partitions}


def parse_starting(values: OptionValues, default: int) -> Positions:
    return _parse(values, "starting", default)


def parse_ending(values: OptionValues) -> Positions:
    return _parse(values, "ending", LATEST)


def _parse(values: OptionValues, side: Side, default: int) -> Positions:
    """A common time overrides times per partition, and those override offsets, as in Spark."""
    strategy = values.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
    takes_latest = side == "ending" or strategy == "latest"
    for option in (f"{side}Timestamp", f"{side}OffsetsByTimestamp"):
        value = values.text(option)
        if value is None:
            continue
        if value.isdecimal():
            return Positions(int(value), {}, True, option, takes_latest)
        times = parse_by_partition(option, value)
        if any(time < 0 for time in times.values()):
            raise ConfigError(f"{option}={value}: give times as milliseconds since 1970, 0 or more")
        return Positions(None, times, True, option, takes_latest)
    option = f"{side}Offsets"
    value = values.text(option)
    if value is None:
        return Positions(default, option=option)
    word = _WORDS.get(value.lower())
    if word is not None:
        return Positions(word, option=option)
    offsets = parse_by_partition(option, value)
    if any(offset < EARLIEST for offset in offsets.values()):
        raise ConfigError(f"{option}={value}: give offsets of 0 or more, -1 for latest or -2 for earliest")
    return Positions(None, offsets, option=option)


def refuse(positions: Positions, word: Literal["earliest", "latest"], why: str) -> None:
    """Raise if ``word`` is among the positions, by name or by number."""
    number = _WORDS[word]
    if not positions.are_times and (
        positions.everywhere == number or number in positions.by_partition.values()
    ):
        raise ConfigError(f"{positions.option} cannot be {_NAMES[word]} {why}")


async def resolve(
    offsets: Offsets, positions: Positions, partitions: Collection[TopicPartition], read_committed: bool
) -> dict[TopicPartition, int]:
    """The offsets that the positions currently resolve to."""
    wanted = positions.of(partitions)
    symbolic = {p: number for p, number in wanted.items() if positions.are_times or number < 0}
    if not symbolic:
        return wanted
    listed = await offsets.find(symbolic, read_committed=read_committed)
    too_young = [partition for partition, found in listed.items() if found.offset < 0]
    if too_young and not positions.latest_when_too_young:
        names = ", ".join(f"{partition} at {wanted[partition]}" for partition in too_young)
        raise ConfigError(
            f"{positions.option}: no record is that recent ({names}); give an earlier time, or set "
            f"startingOffsetsByTimestampStrategy=latest to start at the end of the log"
        )
    ends = await offsets.find(dict.fromkeys(too_young, LATEST), read_committed=read_committed)
    return {
        **wanted,
        **{partition: found.offset for partition, found in listed.items()},
        **{partition: found.offset for partition, found in ends.items()},
    }
