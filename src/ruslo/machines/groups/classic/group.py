"""A classic group: its members, their protocol, and the state of its rebalance.

    Empty ──first member joins──▶ PreparingRebalance ──all joined, or timeout──▶ CompletingRebalance
      ▲                              ▲  │                                           │      │
      └──────── no member left ──────┼──┘                                           │      │
                                     ├──── member joins, leaves, or fails to sync ──┘      │
                                     └──────────── the same, later ──── Stable ◀─ leader ──┘
                                                                                 synced

There is no state Dead: a deleted group is not in the shard.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

from ruslo.machines.groups.classic.member import ClassicMember, Protocols
from ruslo.machines.groups.classic.subscription import subscribed_topics
from ruslo.machines.groups.group import CLASSIC, CONSUMER_PROTOCOL, Committer, Group
from ruslo.machines.groups.outcome import GroupReply
from ruslo.machines.groups.records import (
    NO_TIMESTAMP,
    GroupRecord,
    classic_group_record,
    classic_group_tombstone,
)
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.machine import Reply
from ruslo.machines.timers import Timers
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.group_metadata_value import GroupMetadataValue


class ClassicState(enum.Enum):
    """The values are the names in responses."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


LEGAL_PREDECESSORS: dict[ClassicState, frozenset[ClassicState]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING}),
    ClassicState.PREPARING: frozenset({ClassicState.EMPTY, ClassicState.COMPLETING, ClassicState.STABLE}),
    ClassicState.COMPLETING: frozenset({ClassicState.PREPARING}),
    ClassicState.STABLE: frozenset({ClassicState.COMPLETING}),
}

_GROUP_TIMERS = (
    TimerKind.JOIN,
    TimerKind.INITIAL_DELAY,
    TimerKind.SYNC,
    TimerKind.ADOPT,
    TimerKind.ADOPT_STABLE,
)


@dataclass(slots=True, eq=False)
class ClassicGroup(Group):
    kind: ClassVar[str] = CLASSIC

    _: KW_ONLY
    state_ms: int = NO_TIMESTAMP
    """The wall-clock time of the last state change; -1 if an old record did not contain it."""
    state: ClassicState = ClassicState.EMPTY
    previous_state: ClassicState | None = None
    _protocol_type: str = ""
    """Empty if no member has ever joined: the group consists only of offsets."""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)
    """Members by id, in the order of their joins."""
    static_members: dict[str, str] = field(default_factory=dict)
    """Member id by instance id."""
    _support: dict[str, int] = field(default_factory=dict)
    """The number of members that support each protocol."""
    waiting: int = 0
    """The number of members with a parked JoinGroup."""
    pending_joins: set[str] = field(default_factory=set)
    """Member ids of MEMBER_ID_REQUIRED responses whose members have not joined yet (KIP-394)."""
    pending_syncs: set[str] = field(default_factory=set)
    """Members that have not sent SyncGroup in this generation."""
    newcomers_during_delay: bool = False
    """Whether a member joined since the initial delay was last extended."""
    initial_delay_left_ms: int = 0
    recorded: bool = False
    """Whether the log has a record of the group, even if it was not committed in time."""
    _subscribed: frozenset[str] | None = None
    """The subscribed topics of this generation, once they have been read."""

    # -- as all groups ---------------------------------------------------------------------------------------

    @property
    def protocol_type(self) -> str:
        return self._protocol_type

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    def subscribes_to(self, topic: str) -> bool:
        subscription = self.subscription()
        if subscription is None:
            # The members' subscriptions cannot be read: assume that they subscribe to it.
            return self._protocol_type == CONSUMER_PROTOCOL
        return topic in subscription

    def tombstones(self) -> list[GroupRecord]:
        return [classic_group_tombstone(self.group_id)]

    def check_offset_commit(self, committer: Committer) -> ErrorCode:
        if committer.epoch < 0 and self.is_empty:
            return ErrorCode.NONE
        if committer.epoch >= 0 or committer.member_id or committer.instance_id is not None:
            code = self.check_member(committer.member_id, committer.instance_id)
            if code is not ErrorCode.NONE:
                return code
            if committer.epoch != self.generation:
                return ErrorCode.ILLEGAL_GENERATION
        elif not committer.transactional:
            # TxnOffsetCommit below v3 does not name a member.
            return ErrorCode.UNKNOWN_MEMBER_ID
        if self.state is ClassicState.COMPLETING and not committer.transactional:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def check_offset_delete(self) -> ErrorCode:
        # The coordinator cannot read subscriptions of other protocol types.
        if self.is_empty or self._protocol_type == CONSUMER_PROTOCOL:
            return ErrorCode.NONE
        return ErrorCode.NON_EMPTY_GROUP

    def retention_start_ms(self, topic: str, commit_ms: int) -> int | None:
        if not self._protocol_type:
            return commit_ms
        if self.is_empty:
            return commit_ms if self.state_ms == NO_TIMESTAMP else self.state_ms
        if self.state is ClassicState.STABLE:
            subscription = self.subscription()
            if subscription is not None and topic not in subscription:
                return commit_ms
        return None

    # -- members ---------------------------------------------------------------------------------------------

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """The error of a request with this member id and instance id."""
        if instance_id is not None:
            holder = self.static_members.get(instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols has one in common with all current members."""
        if not self.members:
            return bool(protocol_type and protocols)
        member_count = len(self.members)
        return protocol_type == self._protocol_type and any(
            self._support.get(name) == member_count for name, _ in protocols
        )

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        if not self.members:
            self._protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._count_support(member.protocols, 1)
        self.waiting += member.join is not None
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: str, code: ErrorCode) -> list[GroupReply]:
        """Remove a member; its parked requests fail with this error."""
        member = self.members.pop(member_id)
        self._count_support(member.protocols, -1)
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        self.pending_syncs.discard(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return self.unpark(member, code)

    def replace_static(self, member: ClassicMember, new_id: str) -> list[GroupReply]:
        """Give a static member that has rejoined a new id (KIP-345); the old id is fenced."""
        old_id = member.member_id
        replies = self.unpark(member, ErrorCode.FENCED_INSTANCE_ID)
        # The member keeps its position in the order of joins.
        member.member_id = new_id
        self.members = {each.member_id: each for each in self.members.values()}
        assert member.instance_id is not None
        self.static_members[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        if old_id in self.pending_syncs:
            self.pending_syncs.remove(old_id)
            self.pending_syncs.add(new_id)
        return replies

    def set_protocols(self, member: ClassicMember, protocols: Protocols) -> None:
        self._count_support(member.protocols, -1)
        member.protocols = protocols
        self._count_support(protocols, 1)

    def unpark(self, member: ClassicMember, code: ErrorCode) -> list[GroupReply]:
        replies: list[GroupReply] = []
        if member.join is not None:
            replies.append(Reply(member.join.token, group_error(code, self.group_id)))
            member.join = None
            self.waiting -= 1
        if member.sync is not None:
            replies.append(Reply(member.sync.token, group_error(code, self.group_id)))
            member.sync = None
        return replies

    def drop_parked(self, code: ErrorCode) -> list[GroupReply]:
        """Fail all parked requests."""
        return [reply for member in self.members.values() for reply in self.unpark(member, code)]

    def cancel_timers(self, timers: Timers[TimerKey]) -> None:
        for kind in _GROUP_TIMERS:
            timers.cancel(TimerKey(self.group_id, None, kind))
        for member_id in self.members:
            timers.cancel(TimerKey(self.group_id, member_id, TimerKind.SESSION))
        for member_id in self.pending_joins:
            timers.cancel(TimerKey(self.group_id, member_id, TimerKind.PENDING))

    # -- generations -----------------------------------------------------------------------------------------

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_joined(self) -> bool:
        return self.waiting == len(self.members) and not self.pending_joins

    def move_to(self, state: ClassicState, wall_ms: int) -> None:
        assert self.state in LEGAL_PREDECESSORS[state], f"{self.group_id}: {self.state} to {state}"
        self.previous_state = self.state
        self.state = state
        self.state_ms = wall_ms

    def select_protocol(self) -> str:
        """Each member votes for its first protocol that all members support; the most votes win."""
        member_count = len(self.members)
        candidates = {name for name, count in self._support.items() if count == member_count}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    def elect_joined_leader(self) -> bool:
        """Elect a leader that has joined, if the current one has not; False if no member has joined."""
        if self.leader is not None and self.members[self.leader].join is not None:
            return True
        for member_id, member in self.members.items():
            if member.join is not None:
                self.leader = member_id
                return True
        return False

    def next_generation(self, wall_ms: int) -> None:
        self.generation += 1
        self.pending_syncs.clear()
        self._subscribed = None
        if self.members:
            self.protocol = self.select_protocol()
            self.move_to(ClassicState.COMPLETING, wall_ms)
        else:
            self.protocol = None
            self.move_to(ClassicState.EMPTY, wall_ms)

    def subscription(self) -> frozenset[str] | None:
        """The topics that members subscribe to; None if the coordinator cannot know."""
        if self._protocol_type != CONSUMER_PROTOCOL:
            return None
        if self._subscribed is None:
            topics: set[str] = set()
            for member in self.members.values():
                of_member = subscribed_topics(member.metadata(self.protocol))
                if of_member is None:
                    return None
                topics.update(of_member)
            self._subscribed = frozenset(topics)
        return self._subscribed

    def forget_subscription(self) -> None:
        """Drop cached subscriptions: a member has sent other metadata without a new generation."""
        self._subscribed = None

    # -- records ---------------------------------------------------------------------------------------------

    def to_record(self) -> GroupRecord:
        return classic_group_record(
            self.group_id,
            protocol_type=self._protocol_type,
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            state_ms=self.state_ms,
            members=(member.to_record(self.protocol) for member in self.members.values()),
        )

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """The group after a load: Stable or Empty, because the log contains no rebalance in progress."""
        group = cls(group_id, state_ms=value.current_state_timestamp)
        group.recorded = True
        for member in value.members:
            group.add(ClassicMember.from_record(member, value.protocol), value.protocol_type)
        group._protocol_type = value.protocol_type
        group.generation = value.generation
        group.protocol = value.protocol
        if value.leader in group.members:
            group.leader = value.leader
        if value.members:
            group.state = ClassicState.STABLE
        return group

    def _count_support(self, protocols: Protocols, change: int) -> None:
        support = self._support
        for name in _names(protocols):
            count = support.get(name, 0) + change
            if count:
                support[name] = count
            else:
                del support[name]


def _names(protocols: Protocols) -> Iterable[str]:
    """The names without duplicates: a client may list a protocol twice, and must count once."""
    return dict.fromkeys(name for name, _ in protocols)


def group_error(code: ErrorCode, group_id: str) -> KafkaError:
    return KafkaError(code, f"group {group_id!r}: {code.name}")
