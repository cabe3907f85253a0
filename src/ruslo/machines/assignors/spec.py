"""What an assignor is given, and what it returns.

An assignor is a pure function of the group: the same GroupSpec must give the same assignment, since it may
be asked again after a coordinator has moved. Users offer their own through the entry points
``ruslo.assignors``; these classes are their interface.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from ruslo.model.ids import Uuid

Partitions: TypeAlias = Mapping[Uuid, frozenset[int]]
"""Topic id to partitions; topics without any are left out."""

Assignment: TypeAlias = Mapping[str, Mapping[Uuid, Iterable[int]]]
"""Member id to what it shall have. Members that are left out get nothing."""

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class MemberSpec:
    member_id: str
    subscribed_topic_ids: frozenset[Uuid]
    """Existing topics only, whether subscribed by name or by a regular expression."""
    current: Partitions = field(default_factory=dict)
    """What the present target gives it."""
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""


@dataclass(frozen=True, slots=True)
class TopicSpec:
    topic_id: Uuid
    name: str
    partition_count: int
    racks: tuple[frozenset[str], ...] = ()
    """Per partition, the racks that hold a replica; empty when no broker names its rack."""
    lags: tuple[int, ...] = ()
    """Per partition, records the group has still to read; UNKNOWN (-1), or empty, where nobody can tell."""
    sizes: tuple[int, ...] = ()
    """Per partition, bytes in the log; as with lags."""

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
    """By member id; the order is the one in which equal members are served."""
    topics: Mapping[Uuid, TopicSpec]
    """Every topic that some member subscribes to."""
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
        """Who has each partition in the present target, where it still may."""
        return {
            (topic_id, partition): member_id
            for member_id, member in self.members.items()
            for topic_id, partitions in member.current.items()
            if topic_id in member.subscribed_topic_ids
            for partition in partitions
            if partition < self.topics[topic_id].partition_count
        }


class Assignor(Protocol):
    """One way of dividing partitions."""

    @property
    def name(self) -> str:
        """What `group.consumer.assignors` and members call it."""
        ...

    @property
    def needs_lag(self) -> bool:
        """Whether lags and sizes must be looked up first."""
        ...

    def assign(self, group: GroupSpec) -> Assignment:
        """The new target: every partition of a subscribed topic, once, to one of its subscribers."""
        ...


class AssignorError(Exception):
    """An assignor cannot do its work; the message says why."""
