"""A consumer group (KIP-848): its members, their target assignment, and its epochs.

| epoch        | bumped when                                                     | record |
|--------------|-----------------------------------------------------------------|--------|
| group epoch  | a subscription, the membership or a subscribed topic changes    | 3      |
| target epoch | an assignor has computed the target of that group epoch         | 6, 7   |
| member epoch | the member has revoked the partitions that it has to revoke     | 8      |

    Empty ──▶ Assigning (target epoch < group epoch) ──▶ Reconciling (member epochs behind) ──▶ Stable

Only ``replay`` calls the methods that change logged state, such as ``put_member``; the fields at the end of
``__init__`` are soft state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ruslo.machines.assignors.spec import Partitions
from ruslo.machines.groups.consumer import offset_checks
from ruslo.machines.groups.consumer.member import ConsumerMember, MemberState, PartitionEpochs
from ruslo.machines.groups.consumer.ports import AssignorFailure
from ruslo.machines.groups.consumer.records import group_tombstones
from ruslo.machines.groups.epoch_group import StaticMembers
from ruslo.machines.groups.events import ResolvedRegex
from ruslo.machines.groups.group import CONSUMER, CONSUMER_PROTOCOL, Committer
from ruslo.machines.groups.modern import NOTHING, ModernGroup, exchanged_names, take_names
from ruslo.machines.groups.records import GroupRecord
from ruslo.model.errors import CorruptLogError, ErrorCode
from ruslo.model.ids import Uuid, uuid_to_text


@dataclass(slots=True, eq=False)
class ConsumerGroup(ModernGroup[ConsumerMember]):
    kind: ClassVar[str] = CONSUMER

    static_members: StaticMembers = field(default_factory=StaticMembers)
    resolved: dict[str, ResolvedRegex] = field(default_factory=dict)
    """By pattern."""
    has_partition_metadata: bool = False
    """Whether the log contains an old record of type 4."""
    classic_count: int = 0
    """The number of members that use the classic protocol."""
    _holders: dict[Uuid, dict[int, int]] = field(default_factory=dict)
    """By topic id and partition: the epoch of its owner, which may have to revoke it."""
    _regexes: Counter[str] = field(default_factory=Counter)
    _regex_topics: Counter[str] = field(default_factory=Counter)
    _assignors: Counter[str] = field(default_factory=Counter)
    _classic_protocols: Counter[str] = field(default_factory=Counter)
    topics_created_version: int = 0
    """The metadata version that created topics, which its regular expressions may match."""
    failure: AssignorFailure | None = None
    """The failure of the last assignor run; None if it succeeded."""
    failure_retry_ms: int = 0

    # -- as all groups ---------------------------------------------------------------------------------------

    @property
    def protocol_type(self) -> str:
        return CONSUMER_PROTOCOL

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def subscribes_to(self, topic: str) -> bool:
        return topic in self._topic_names or topic in self._regex_topics

    def tombstones(self) -> list[GroupRecord]:
        return group_tombstones(self.group_id, self.members, self.resolved)

    def check_offset_commit(self, committer: Committer) -> ErrorCode:
        return offset_checks.check_commit(self, committer)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        return offset_checks.check_fetch(self, member_id, member_epoch)

    def check_offset_delete(self) -> ErrorCode:
        return ErrorCode.NONE

    def retention_start_ms(self, topic: str, commit_ms: int) -> int | None:
        return None if self.subscribes_to(topic) else commit_ms

    # -- looking up ------------------------------------------------------------------------------------------

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        return self.static_members.owner(instance_id, self)

    def identified(self, member_id: str, instance_id: str | None) -> ConsumerMember:
        """The existing member with this id; a static member must own its instance id."""
        return self.static_members.identified(member_id, instance_id, self)

    def target_of(self, member: ConsumerMember) -> Partitions:
        """The member's target; that of a static member belongs to the last owner of its instance id."""
        member_id: str | None = member.member_id
        if member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id)
        return NOTHING if member_id is None else self.target.get(member_id, NOTHING)

    def is_held(self, topic_id: Uuid, partition: int) -> bool:
        return partition in self._holders.get(topic_id, ())

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether other members still own all partitions that an UNRELEASED member waits for."""
        return member.state is MemberState.UNRELEASED and any(
            partition not in member.assigned.get(topic_id, ()) and self.is_held(topic_id, partition)
            for topic_id, partitions in self.target.get(member.member_id, NOTHING).items()
            for partition in partitions
        )

    def regex_count(self, regex: str) -> int:
        """The number of members that subscribe with this regular expression."""
        return self._regexes[regex]

    def regexes_with(self, old: ConsumerMember | None, new: ConsumerMember | None) -> set[str]:
        """The regular expressions of all members after ``old`` is replaced by ``new``."""
        counts = exchanged_names(self._regexes, _regexes_of(old), _regexes_of(new))
        return set(counts)

    def topics_with(self, old: ConsumerMember, new: ConsumerMember) -> set[str]:
        """The subscribed topics after ``new`` replaces ``old``, without those of unresolved patterns."""
        names = set(exchanged_names(self._topic_names, old.topic_names, new.topic_names))
        gone = [old.regex] if old.regex != new.regex and self._regexes[old.regex] == 1 else []
        return names | self._regex_topics_without(gone)

    def topics_without(self, members: Iterable[ConsumerMember], regexes: Iterable[str]) -> set[str]:
        """The subscribed topics without these members and these regular expressions."""
        names = Counter(self._topic_names)
        for member in members:
            take_names(names, member.topic_names)
        return set(names) | self._regex_topics_without(regexes)

    def topics_of_regexes(self, resolved: Mapping[str, ResolvedRegex]) -> set[str]:
        """The subscribed topics after these regular expressions are resolved again."""
        return set(self._topic_names).union(
            *(known.topics for known in {**self.resolved, **resolved}.values())
        )

    def subscribes_to_any(self, topics: frozenset[str]) -> bool:
        return not (
            self._topic_names.keys().isdisjoint(topics) and self._regex_topics.keys().isdisjoint(topics)
        )

    def preferred_assignor(
        self, names: tuple[str, ...], old: ConsumerMember | None = None, new: ConsumerMember | None = None
    ) -> str:
        """The available assignor that most members prefer; the first one if no member has a preference."""
        counts = exchanged_names(self._assignors, _assignors_of(old), _assignors_of(new))
        return max(names, key=lambda name: counts[name])

    def supports_classic(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether a member with these protocols has one in common with all classic members."""
        return protocol_type == CONSUMER_PROTOCOL and any(
            self._classic_protocols[name] == self.classic_count for name in protocols
        )

    def all_classic_without(self, members: Iterable[ConsumerMember]) -> bool:
        """Whether only classic members stay when these leave."""
        gone = list(members)
        gone_classic = sum(member.classic is not None for member in gone)
        return self.classic_count - gone_classic == len(self.members) - len(gone)

    # -- changed by replay only ------------------------------------------------------------------------------

    def put_member(self, member: ConsumerMember) -> None:
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self._count(old, member)
        if old is None or (old.assigned, old.pending_revocation, old.epoch) != (
            member.assigned,
            member.pending_revocation,
            member.epoch,
        ):
            if old is not None:
                self._release(old)
            self._hold(member.assigned, member.epoch)
            self._hold(member.pending_revocation, member.epoch)
        self.static_members.give(old, member)

    def remove_member(self, member_id: str) -> None:
        old = self.members.pop(member_id)
        self._count(old, None)
        self._release(old)
        self.static_members.give_up(old)

    def put_regex(self, regex: str, resolved: ResolvedRegex) -> None:
        self.remove_regex(regex)
        self.resolved[regex] = resolved
        self._regex_topics.update(resolved.topics)

    def remove_regex(self, regex: str) -> None:
        old = self.resolved.pop(regex, None)
        if old is not None:
            take_names(self._regex_topics, old.topics)

    def _regex_topics_without(self, regexes: Iterable[str]) -> set[str]:
        topics = Counter(self._regex_topics)
        for regex in regexes:
            if regex in self.resolved:
                take_names(topics, self.resolved[regex].topics)
        return set(topics)

    def _count(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        for counts, before, after in (
            (self._topic_names, _names_of(old), _names_of(new)),
            (self._regexes, _regexes_of(old), _regexes_of(new)),
            (self._assignors, _assignors_of(old), _assignors_of(new)),
            (self._classic_protocols, _classic_protocols_of(old), _classic_protocols_of(new)),
        ):
            if before != after:
                take_names(counts, before)
                counts.update(after)
        self.classic_count += _is_classic(new) - _is_classic(old)

    def _hold(self, partitions: PartitionEpochs, epoch: int) -> None:
        for topic_id, indexes in partitions.items():
            holders = self._holders.setdefault(topic_id, {})
            for partition in indexes:
                holder_epoch = holders.get(partition)
                if holder_epoch is not None and holder_epoch >= epoch:
                    raise CorruptLogError(
                        f"Group {self.group_id!r}: a member gets partition {partition} of topic "
                        f"{uuid_to_text(topic_id)} at epoch {epoch}, but another owns it at {holder_epoch}"
                    )
                holders[partition] = epoch

    def _release(self, member: ConsumerMember) -> None:
        for partitions in (member.assigned, member.pending_revocation):
            for topic_id, indexes in partitions.items():
                holders = self._holders.get(topic_id, {})
                for partition in indexes:
                    # At another epoch another member owns it by now.
                    if holders.get(partition) == member.epoch:
                        del holders[partition]
                if not holders:
                    self._holders.pop(topic_id, None)


def _names_of(member: ConsumerMember | None) -> frozenset[str]:
    return frozenset() if member is None else member.topic_names


def _regexes_of(member: ConsumerMember | None) -> tuple[str, ...]:
    return (member.regex,) if member is not None and member.regex else ()


def _assignors_of(member: ConsumerMember | None) -> tuple[str, ...]:
    return (member.assignor,) if member is not None and member.assignor is not None else ()


def _classic_protocols_of(member: ConsumerMember | None) -> tuple[str, ...]:
    if member is None or member.classic is None:
        return ()
    return tuple(dict.fromkeys(name for name, _ in member.classic.protocols))


def _is_classic(member: ConsumerMember | None) -> bool:
    return member is not None and member.classic is not None
