"""What consumer groups, share groups and streams groups have in common: epochs, and members by id.

The module also has the rules of their records: a tombstone of the group or of its target must follow those of
what it contains.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from ruslo.machines.groups.group import Group
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.machine import Instant, Outcome
from ruslo.model.errors import CorruptLogError, ErrorCode, KafkaError

FIRST_EPOCH = 1
"""The epoch of a new group and its target; the first member gets 2."""
NO_TARGET = -1
REMOVAL_RETRY_MS = 500
"""The delay before a removal of members that could not be written is tried again."""

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2


class EpochMember(Protocol):
    @property
    def member_id(self) -> str: ...


class StaticMember(EpochMember, Protocol):
    """A member of a group in which members may be static."""

    @property
    def instance_id(self) -> str | None: ...

    @property
    def epoch(self) -> int: ...

    @property
    def rebalance_timeout_ms(self) -> int: ...


MemberT = TypeVar("MemberT", bound=EpochMember)
StaticMemberT = TypeVar("StaticMemberT", bound=StaticMember)


@dataclass(slots=True, eq=False)
class EpochGroup(Group, Generic[MemberT]):
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    target_epoch: int = FIRST_EPOCH
    target_ms: int = 0
    """The wall-clock time of the last target; 0 if none was computed yet."""
    members: dict[str, MemberT] = field(default_factory=dict)
    target: dict[str, Any] = field(default_factory=dict)
    """The target assignment by member id; each kind of group has its own type."""
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
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    @property
    def refresh_due(self) -> bool:
        """Whether the topic hash must be computed, also if the last epoch for it was never written."""
        return self.refreshed_epoch is None or self.epoch < self.refreshed_epoch

    def is_target_recent(self, wall_ms: int, interval_ms: int) -> bool:
        """Whether the next target must wait; not if the wall clock was set back since the last one."""
        return self.target_ms <= wall_ms < self.target_ms + interval_ms

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


class StaticMembers(dict[str, str]):
    """Member id by instance id."""

    def give(self, old: StaticMember | None, new: StaticMember) -> None:
        """Record the owner of the member's instance id."""
        if old is not None and old.instance_id != new.instance_id:
            self.give_up(old)
        if new.instance_id is not None:
            self[new.instance_id] = new.member_id

    def give_up(self, member: StaticMember) -> None:
        """Free the instance id, unless another member owns it by now."""
        instance_id = member.instance_id
        if instance_id is not None and self.get(instance_id) == member.member_id:
            del self[instance_id]

    def owner(self, instance_id: str | None, group: EpochGroup[StaticMemberT]) -> StaticMemberT | None:
        if instance_id is None:
            return None
        member_id = self.get(instance_id)
        return None if member_id is None else group.members[member_id]

    def identified(
        self, member_id: str, instance_id: str | None, group: EpochGroup[StaticMemberT]
    ) -> StaticMemberT:
        """The existing member with this id; a static member must own its instance id."""
        if instance_id is None:
            return group.member(member_id)
        member = self.owner(instance_id, group)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member with instance id {instance_id} is not a member of group {group.group_id}.",
            )
        if member.member_id != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Instance id {instance_id!r} belongs to member {member.member_id!r} now, not to "
                f"{member_id!r}",
            )
        return member


def check_room(group: EpochGroup[MemberT], member_id: str, max_size: int) -> None:
    if len(group.members) >= max_size and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"Group {group.group_id!r} has {len(group.members)} members, the maximum of "
            f"group.{group.kind}.max.size",
        )


def unreleased_instance(instance_id: str, holder: StaticMember) -> KafkaError:
    return KafkaError(
        ErrorCode.UNRELEASED_INSTANCE_ID,
        f"Instance id {instance_id!r} still belongs to member {holder.member_id!r}. Wait until that "
        f"member has left or its session has expired.",
    )


def fenced_epoch(kind: str, current: int, epoch: int) -> KafkaError:
    how = "greater" if epoch > current else "smaller"
    return KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {kind} group member has a {how} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({current}). The member must abandon all its partitions and rejoin.",
    )


def watch_revocation(shard: ShardState, group_id: str, member: StaticMember, now_ms: int) -> None:
    """Fence the member unless it has revoked what it has to revoke within its rebalance timeout."""
    deadline_ms = now_ms + member.rebalance_timeout_ms
    shard.timers.set(TimerKey(group_id, member.member_id, TimerKind.REBALANCE), deadline_ms)


def removal(shard: ShardState, group: EpochGroup[MemberT], member_ids: list[str]) -> GroupOutcome:
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
