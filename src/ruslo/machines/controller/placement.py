"""Placement of the replicas of new partitions.

- Racks alternate, and so do the brokers within a rack: every partition starts one rack further than the one
  before and takes one replica per rack until each rack has one.
- Unfenced brokers come first; fenced ones only fill the replication factor and never lead.
- After as many partitions as there are unfenced brokers, the order is shuffled again, so that the same
  brokers do not always follow each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from ruslo.machines.controller.broker_image import BrokerImage
from ruslo.model.errors import ErrorCode, KafkaError


class _Ring:
    """Items in a circle, read from a moving position."""

    __slots__ = ("_items", "_position")

    def __init__(self, items: list[int], random: Random) -> None:
        self._items = items
        self._position = 0
        self.shuffle(random)

    def __len__(self) -> int:
        return len(self._items)

    def shuffle(self, random: Random) -> None:
        random.shuffle(self._items)
        self._position = 0

    def at(self, offset: int) -> int:
        return self._items[(self._position + offset) % len(self._items)]

    def advance(self) -> None:
        if self._items:
            self._position = (self._position + 1) % len(self._items)


@dataclass(slots=True)
class _Rack:
    unfenced: _Ring
    fenced: _Ring

    def candidates(self) -> list[int]:
        return [
            *(self.unfenced.at(offset) for offset in range(len(self.unfenced))),
            *(self.fenced.at(offset) for offset in range(len(self.fenced))),
        ]


def place_replicas(
    brokers: Iterable[BrokerImage], partition_count: int, replication_factor: int, random: Random
) -> Iterator[list[int]]:
    """The replicas of each partition, the leader first. Raises KafkaError if there are too few brokers."""
    usable = [broker for broker in brokers if broker.accepts_new_replicas]
    unfenced_count = sum(broker.active for broker in usable)
    if replication_factor > len(usable):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor {replication_factor} exceeds the {len(usable)} brokers that accept "
            "replicas. "
            "Lower it, start more brokers or uncordon log directories",
        )
    if not unfenced_count:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{replication_factor} replicas cannot be placed: all brokers are fenced, shutting down or have "
            "all "
            "their log directories cordoned",
        )
    return _placements(usable, unfenced_count, partition_count, replication_factor, random)


def _placements(
    brokers: list[BrokerImage],
    unfenced_count: int,
    partition_count: int,
    replication_factor: int,
    random: Random,
) -> Iterator[list[int]]:
    if replication_factor == 1 and len(brokers) == 1:
        for _ in range(partition_count):
            yield [brokers[0].id]
        return
    racks = _racks(brokers, random)
    first_rack = random.randrange(len(racks))
    for partition in range(partition_count):
        if partition and partition % unfenced_count == 0:
            for rack in racks:
                rack.unfenced.shuffle(random)
                rack.fenced.shuffle(random)
        yield _place_one(racks, (first_rack + partition) % len(racks), replication_factor)
        for rack in racks:
            rack.unfenced.advance()
            rack.fenced.advance()


def _place_one(racks: list[_Rack], first_rack: int, replication_factor: int) -> list[int]:
    # The leader's rack is the first one that has an unfenced broker.
    order = [racks[(first_rack + offset) % len(racks)] for offset in range(len(racks))]
    leading = next(position for position, rack in enumerate(order) if len(rack.unfenced))
    order = order[leading:] + order[:leading]
    remaining = [rack.candidates() for rack in order]
    replicas: list[int] = []
    while len(replicas) < replication_factor:
        for candidates in remaining:
            if candidates and len(replicas) < replication_factor:
                replicas.append(candidates.pop(0))
    return replicas


def _racks(brokers: list[BrokerImage], random: Random) -> list[_Rack]:
    members: dict[str, tuple[list[int], list[int]]] = {}
    for broker in sorted(brokers, key=lambda each: each.id):
        unfenced, fenced = members.setdefault(broker.rack or "", ([], []))
        (unfenced if broker.active else fenced).append(broker.id)
    return [
        _Rack(_Ring(members[name][0], random), _Ring(members[name][1], random)) for name in sorted(members)
    ]
