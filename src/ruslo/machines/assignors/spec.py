"""The input and output of an assignor.

An assignor is a pure function: the same GroupSpec must give the same assignment, because another coordinator
may compute it again. Users provide their own assignors by entry points of ``ruslo.assignors``; these classes
are their interface.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from ruslo.model.ids import Uuid

Partitions: TypeAlias = Mapping[Uuid, frozenset[int]]
"""Partitions by topic id, without topics that have no partitions."""

Assignment: TypeAlias = Mapping[str, Mapping[Uuid, Iterable[int]]]
"""The assigned partitions by member id. Members that are absent get none."""

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class MemberSpec:
    member_id: str
    subscribed_topic_ids: frozenset[Uuid]
    """The existing topics that it subscribes to, by name or by regular expression."""
    current: Partitions = field(default_factory=dict)
    """The partitions of its current target."""
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""


@dataclass(frozen=True, slots=True)
class TopicSpec:
    topic_id: Uuid
    name: str
    partition_count: int
    racks: tuple[frozenset[str], ...] = ()
    """The racks of the replicas by partition; empty if no broker has a rack."""
    lags: tuple[int, ...] = ()
    """The lag by partition; UNKNOWN (-1) or empty if it is not known."""
    sizes: tuple[int, ...] = ()
    """The log size in bytes by partition; UNKNOWN (-1) or empty if it is not known."""

    def racks_of(self, partition: int) -> frozenset[str]:
        return self.racks[partition] if self.racks else frozenset()

    def lag_of(self, partition: int) -> int:
        return self.lags[partition] if self.lags else UNKNOWN

    def size_of(self, partition: int) -> int:
        return self.sizes[partition] if self.sizes else UNKNOWN


@dataclass(frozen=True, slots=True)
class GroupSpec:
    group_id: str
    members: Mapping[str, MemberSpec]
    """Members by id; equal members receive partitions in this order."""
    topics: Mapping[Uuid, TopicSpec]
    """Every topic that a member subscribes to."""
    homogeneous: bool
    """Whether all members subscribe to the same topics."""

    def subscribers(self) -> dict[Uuid, list[str]]:
        """Member ids by topic, in the members' order."""
        subscribers: dict[Uuid, list[str]] = {topic_id: [] for topic_id in self.topics}
        for member_id, member in self.members.items():
            for topic_id in member.subscribed_topic_ids:
                subscribers[topic_id].append(member_id)
        return subscribers

    def owners(self) -> dict[tuple[Uuid, int], str]:
        """The owner of each partition in the current target, if it still subscribes to the topic."""
        return {
            (topic_id, partition): member_id
            for member_id, member in self.members.items()
            for topic_id, partitions in member.current.items()
            if topic_id in member.subscribed_topic_ids
            for partition in partitions
            if partition < self.topics[topic_id].partition_count
        }


class Assignor(Protocol):
    """A strategy to assign partitions to members."""

    @property
    def name(self) -> str:
        """The name in `group.consumer.assignors` and in requests."""
        ...

    @property
    def needs_lag(self) -> bool:
        """Whether the assignor uses lags and sizes."""
        ...

    def assign(self, group: GroupSpec) -> Assignment:
        """The new target: every partition of a subscribed topic is assigned to exactly one subscriber."""
        ...


class AssignorError(Exception):
    """An assignor failed; the message contains the reason."""
