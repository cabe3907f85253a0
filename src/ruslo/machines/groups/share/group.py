"""A share group (KIP-932): its members, their target assignment, and the states of its share-partitions.

| epoch        | bumped when                                                                   | record |
|--------------|-------------------------------------------------------------------------------|--------|
| group epoch  | subscriptions, members, subscribed topics or their initialized states change  | 11     |
| target epoch | the assignor has computed the target of that group epoch                      | 12, 13 |
| member epoch | the member sends a heartbeat: it gets its target at once, without revocations | 14     |

A partition may belong to several members. Members get a partition only after its state is initialized:

    subscribed ──▶ initializing ──▶ initialized ──▶ assigned

Only ``replay`` calls the methods that change logged state; the fields below ``states`` are soft state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ruslo.machines.assignors.spec import Partitions
from ruslo.machines.groups.group import SHARE, Committer
from ruslo.machines.groups.modern import ModernGroup, exchanged_names, take_names
from ruslo.machines.groups.records import GroupRecord
from ruslo.machines.groups.share.member import ShareMember
from ruslo.machines.groups.share.partition_states import PartitionStates
from ruslo.machines.groups.share.records import group_tombstones
from ruslo.machines.groups.topics_view import TopicsView
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid

SHARE_PROTOCOL = "share"
"""The protocol type in ListGroups."""
CHECK_NOW_MS = -1


@dataclass(slots=True, eq=False)
class ShareGroup(ModernGroup[ShareMember]):
    kind: ClassVar[str] = SHARE
    expires: ClassVar[bool] = False

    states: PartitionStates = field(default_factory=PartitionStates)
    next_initialization_ms: int = CHECK_NOW_MS
    """When the next heartbeat looks for partitions to initialize, unless the group changes before."""
    deleted_topic_ids: frozenset[Uuid] = frozenset()
    """Deleted topics that ``states`` may still contain."""
    _target_differs: bool | None = None
    """The last result of ``has_other_target``; None: it must be computed again."""

    # -- as all groups ---------------------------------------------------------------------------------------

    @property
    def protocol_type(self) -> str:
        return SHARE_PROTOCOL

    @property
    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    def subscribes_to(self, topic: str) -> bool:
        return topic in self._topic_names

    def tombstones(self) -> list[GroupRecord]:
        return group_tombstones(self.group_id, self.members)

    def check_offset_commit(self, committer: Committer) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_offset_delete(self) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def retention_start_ms(self, topic: str, commit_ms: int) -> int | None:
        return None

    # -- looking up ------------------------------------------------------------------------------------------

    @property
    def topic_names(self) -> Collection[str]:
        """The topics that members subscribe to."""
        return self._topic_names.keys()

    def topic_names_with(self, old: ShareMember | None, new: ShareMember | None) -> set[str]:
        """The subscribed topics after ``new`` replaces ``old``."""
        return set(exchanged_names(self._topic_names, _names_of(old), _names_of(new)))

    def subscribes_to_any(self, topics: frozenset[str]) -> bool:
        return not self._topic_names.keys().isdisjoint(topics)

    def has_other_target(self, view: TopicsView) -> bool:
        """Whether initialized partitions of subscribed topics are not those that members have."""
        if self._target_differs is None:
            self._target_differs = bool(self.members) and self._compare_target(view)
        return self._target_differs

    def _compare_target(self, view: TopicsView) -> bool:
        assigned: dict[Uuid, set[int]] = {}
        for partitions in self.target.values():
            for topic_id, indexes in partitions.items():
                assigned.setdefault(topic_id, set()).update(indexes)
        return any(
            topic.name in self._topic_names
            and assigned.get(topic_id, set())
            != {each for each in known.partitions if each < topic.partition_count}
            for topic_id, known in self.states.initialized.items()
            if (topic := view.by_id(topic_id)) is not None
        )

    def changed(self) -> None:
        """Forget what was derived from members, topics, target and states."""
        self._target_differs = None
        self.next_initialization_ms = CHECK_NOW_MS

    # -- changed by replay only ------------------------------------------------------------------------------

    def put_member(self, member: ShareMember) -> None:
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if old is None or old.topic_names != member.topic_names:
            self._topic_names = exchanged_names(self._topic_names, _names_of(old), member.topic_names)
            self.changed()

    def remove_member(self, member_id: str) -> None:
        take_names(self._topic_names, self.members.pop(member_id).topic_names)
        self.changed()

    def put_target(self, member_id: str, target: Mapping[Uuid, frozenset[int]] | None) -> None:
        """None: the member's target is removed."""
        if target is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = target
        self._target_differs = None

    def put_states(self, states: PartitionStates) -> None:
        self.states = states
        self.changed()


def filtered(partitions: Partitions, topic_ids: Iterable[Uuid]) -> Partitions:
    """The partitions of these topics."""
    return {topic_id: partitions[topic_id] for topic_id in topic_ids if topic_id in partitions}


def _names_of(member: ShareMember | None) -> frozenset[str]:
    return frozenset() if member is None else member.topic_names
