"""What consumer groups and share groups have in common: epochs, members and a target assignment by topic ids.

Kafka calls them modern groups. The module also has the rules of their records: a tombstone of the group or of
its target must follow those of what it contains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from ruslo.machines.assignors.spec import Partitions
from ruslo.machines.groups.group import Group
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.groups.topics_view import TopicsView
from ruslo.machines.machine import Instant, Outcome
from ruslo.model.errors import CorruptLogError, ErrorCode, KafkaError
from ruslo.model.ids import Uuid

FIRST_EPOCH = 1
"""The epoch of a new group and its target; the first member gets 2."""
NO_TARGET = -1
REMOVAL_RETRY_MS = 500
"""The delay before a removal of members that could not be written is tried again."""

NOTHING: Partitions = {}


class ModernMember(Protocol):
    @property
    def member_id(self) -> str: ...


MemberT = TypeVar("MemberT", bound=ModernMember)


@dataclass(slots=True, eq=False)
class ModernGroup(Group, Generic[MemberT]):
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    target_epoch: int = FIRST_EPOCH
    target_ms: int = 0
    """The wall-clock time of the last target; 0 if none was computed yet."""
    members: dict[str, MemberT] = field(default_factory=dict)
    target: dict[str, Partitions] = field(default_factory=dict)
    """By member id."""
    _topic_names: Counter[str] = field(default_factory=Counter)
    refreshed_epoch: int | None = None
    """The group epoch for which the topic hash was last computed; None: it must be computed again."""

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        return not self.members

    def member(self, member_id: str) -> MemberT:
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is not a member of group {self.group_id!r}"
            )
        return member

    @property
    def refresh_due(self) -> bool:
        """Whether the topic hash must be computed, also if the last epoch for it was never written."""
        return self.refreshed_epoch is None or self.epoch < self.refreshed_epoch

    def is_target_recent(self, wall_ms: int, interval_ms: int) -> bool:
        """Whether the next target must wait; not if the wall clock was set back since the last one."""
        return self.target_ms <= wall_ms < self.target_ms + interval_ms

    def changed_targets(
        self, member_ids: Iterable[str], result: Mapping[str, Partitions]
    ) -> Iterator[tuple[str, Partitions]]:
        """The members whose target differs from the current one."""
        for member_id in member_ids:
            target = result.get(member_id, NOTHING)
            if self.target.get(member_id) != target:
                yield member_id, target

    # -- replay ----------------------------------------------------------------------------------------------

    def check_removable(self) -> None:
        """Raise CorruptLogError unless the tombstone of the group may come next."""
        if self.members:
            raise CorruptLogError(f"Group {self.group_id!r} has a tombstone but {len(self.members)} members")
        if self.target:
            raise CorruptLogError(f"Group {self.group_id!r} has a tombstone but {len(self.target)} targets")
        if self.target_epoch != NO_TARGET:
            raise CorruptLogError(f"Group {self.group_id!r} has a tombstone but a target")

    def remove_target_epoch(self) -> None:
        if self.target:
            raise CorruptLogError(
                f"The target of group {self.group_id!r} has a tombstone but {len(self.target)} members"
            )
        self.target_epoch = NO_TARGET
        self.target_ms = 0

    def check_member_removable(self, member_id: str, *, has_left: bool) -> None:
        """Raise CorruptLogError unless the tombstone of the member may come next."""
        if not has_left:
            raise CorruptLogError(f"Member {member_id!r} of {self.group_id!r} has a tombstone but partitions")
        if member_id in self.target:
            raise CorruptLogError(f"Member {member_id!r} of {self.group_id!r} has a tombstone but a target")


def take_names(counts: Counter[str], names: Iterable[str]) -> None:
    """Count each of these names once less."""
    for name in names:
        if counts[name] > 1:
            counts[name] -= 1
        else:
            del counts[name]


def exchanged_names(counts: Counter[str], old: Iterable[str], new: Iterable[str]) -> Counter[str]:
    """The counts without the old names and with the new ones."""
    changed = Counter(counts)
    take_names(changed, old)
    changed.update(new)
    return changed


def existing_topic_ids(names: Iterable[str], view: TopicsView) -> frozenset[Uuid]:
    """The ids of the topics that exist."""
    return frozenset(topic.id for name in names if (topic := view.by_name(name)) is not None)


def removal(shard: ShardState, group: ModernGroup[MemberT], member_ids: list[str]) -> GroupOutcome:
    """An outcome that starts sessions again if the members could not be removed."""

    def on_failure(code: ErrorCode, now: Instant) -> GroupOutcome:
        # If the records were appended but not committed in time, the members are removed or have rejoined.
        for member_id in member_ids:
            key = TimerKey(group.group_id, member_id, TimerKind.SESSION)
            is_there = shard.groups.get(group.group_id) is group and member_id in group.members
            if is_there and shard.timers.get(key) is None:
                shard.timers.set(key, now.monotonic_ms + REMOVAL_RETRY_MS)
        return Outcome()

    return Outcome(on_failure=on_failure)
