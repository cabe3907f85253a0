"""The machine of one partition of ``__consumer_offsets``: every group whose id falls there.

The driver's part:

- before leading: ``replay`` every record of the log and ``replay_marker`` every transaction marker, in order,
  then ``handle(Loaded())``;
- for each event: ``handle`` it, append what the outcome says as one batch, ``replay`` the appended records at
  once, and release the replies when the append has committed (an empty append commits with those before);
- if the append fails, or is not committed in time: drop the outcome's replies and call ``append_failed`` with
  it; the replies of that outcome go out at once;
- when leadership ends: ``handle(Unloaded())``, and throw the shard away.

What is in records changes in ``replay``. A classic group is the exception that its protocol asks for: its
joins and votes live in memory only and its record is a picture of them, so while this node leads, the group
in memory is the truth that the record was made of, and ``undo`` takes it back when it could not be written.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeGuard

from ruslo.machines.groups import admin
from ruslo.machines.groups import replay as records_replay
from ruslo.machines.groups.classic import heartbeat as classic_heartbeat
from ruslo.machines.groups.classic import join as classic_join
from ruslo.machines.groups.classic import leave as classic_leave
from ruslo.machines.groups.classic import sync as classic_sync
from ruslo.machines.groups.classic import timers as classic_timers
from ruslo.machines.groups.classic.group import ClassicGroup
from ruslo.machines.groups.consumer import describe as consumer_describe
from ruslo.machines.groups.consumer import heartbeat as consumer_heartbeat
from ruslo.machines.groups.consumer import lifecycle as consumer_lifecycle
from ruslo.machines.groups.consumer import migration as consumer_migration
from ruslo.machines.groups.consumer import timers as consumer_timers
from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.ports import AssignorPort
from ruslo.machines.groups.decision import (
    Decision,
    GroupOutcome,
    GroupReply,
    answer,
    outcome_of,
)
from ruslo.machines.groups.events import (
    GroupEvent,
    Loaded,
    MetadataChanged,
    RegexResolved,
    Requested,
    RequestInfo,
    TargetComputed,
    TimerFired,
)
from ruslo.machines.groups.group import Group
from ruslo.machines.groups.offsets import commit as offset_commit
from ruslo.machines.groups.offsets import delete as offset_delete
from ruslo.machines.groups.offsets import fetch as offset_fetch
from ruslo.machines.groups.offsets.sweeps import Sweeps
from ruslo.machines.groups.records import GroupRecord
from ruslo.machines.groups.refusals import append_error
from ruslo.machines.groups.settings import GroupSettings
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKind
from ruslo.machines.groups.topics_view import TopicsView
from ruslo.machines.outcome import Reply
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid, random_uuid
from ruslo.protocol.message import Message
from ruslo.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ruslo.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ruslo.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ruslo.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ruslo.protocol.messages.heartbeat_request import HeartbeatRequest
from ruslo.protocol.messages.join_group_request import JoinGroupRequest
from ruslo.protocol.messages.leave_group_request import LeaveGroupRequest
from ruslo.protocol.messages.list_groups_request import ListGroupsRequest
from ruslo.protocol.messages.offset_commit_request import OffsetCommitRequest
from ruslo.protocol.messages.offset_delete_request import OffsetDeleteRequest
from ruslo.protocol.messages.offset_fetch_request import OffsetFetchRequest
from ruslo.protocol.messages.sync_group_request import SyncGroupRequest
from ruslo.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest

TIMERS_PER_STEP = 64
"""Many sessions may end in the same moment; the loop must not stand still for all of them."""


class GroupShard:
    def __init__(
        self,
        settings: GroupSettings,
        assignors: AssignorPort,
        topics: TopicsView | None = None,
        random_uuid: Callable[[], Uuid] = random_uuid,
    ) -> None:
        self.state = ShardState(settings, assignors, topics, random_uuid)
        self._sweeps = Sweeps()

    def change_settings(self, settings: GroupSettings) -> None:
        """From the next event on; deadlines that are set stay as they are."""
        self.state.settings = settings

    def handle(self, event: GroupEvent, now_ms: int, wall_ms: int) -> GroupOutcome:
        """``now_ms``: monotonic, for deadlines. ``wall_ms``: what goes into records and retention."""
        state = self.state
        state.wall_ms = wall_ms
        if isinstance(event, Requested):
            if not state.active:
                lost = KafkaError(ErrorCode.NOT_COORDINATOR, "this node does not lead the group's partition")
                return GroupOutcome(replies=(Reply(event.token, lost),))
            return outcome_of(self._answer(event.request, event.context, event.token, now_ms))
        if isinstance(event, TimerFired):
            return outcome_of(self._fire(now_ms))
        if isinstance(event, MetadataChanged):
            return outcome_of(self._topics_changed(event, now_ms))
        if isinstance(event, Loaded):
            return outcome_of(self._load(now_ms))
        if isinstance(event, RegexResolved):
            return outcome_of(consumer_lifecycle.regex_resolved(state, event, now_ms))
        if isinstance(event, TargetComputed):
            return outcome_of(consumer_lifecycle.target_computed(state, event, now_ms))
        return self._unload()

    def append_failed(
        self, outcome: GroupOutcome, code: ErrorCode, now_ms: int, wall_ms: int
    ) -> GroupOutcome:
        """The outcome's records were not written, or not committed in time. Its own replies must be dropped.

        ``code``: what the log said, or REQUEST_TIMED_OUT.
        """
        self.state.wall_ms = wall_ms
        told = append_error(code)
        undone = Decision() if outcome.undo is None else outcome.undo(told, now_ms)
        error = KafkaError(told, f"the group's records could not be written: {code.name}")
        undone.replies += [Reply(reply.token, error) for reply in outcome.replies]
        # Nothing to wait for: what these replies would have rested on is what did not come about.
        undone.at_once = True
        return outcome_of(undone)

    def replay(self, record: GroupRecord, offset: int, producer_id: int = records_replay.NO_PRODUCER) -> None:
        """Take in one record at its place in the log; ``producer_id`` of a transactional batch, else -1.

        Raises CorruptLogError if nobody could make sense of it; the partition must not be led then.
        """
        records_replay.replay(self.state, record, offset, producer_id)

    def replay_marker(self, producer_id: int, *, committed: bool, offset: int) -> None:
        """Take in the control record that ends a transaction."""
        self.state.offsets.settle(producer_id, committed=committed)
        self.state.next_offset = offset + 1

    def deadline_ms(self) -> int | None:
        """When ``TimerFired`` is due, on the clock of ``now_ms``."""
        return self.state.timers.deadline_ms()

    # -- events ----------------------------------------------------------------------------------------------

    def _load(self, now_ms: int) -> Decision:
        state = self.state
        state.active = True
        decision = Decision(at_once=True)
        for group in list(state.groups.values()):
            if isinstance(group, ClassicGroup):
                decision.add(classic_timers.loaded(state, group, now_ms))
        decision.add(consumer_lifecycle.loaded(state, now_ms))
        self._sweeps.start(state, now_ms)
        return decision

    def _unload(self) -> GroupOutcome:
        state = self.state
        state.active = False
        state.timers.clear()
        replies: list[GroupReply] = consumer_lifecycle.unloaded(state)
        for group in state.groups.values():
            if isinstance(group, ClassicGroup):
                replies += group.drop_parked(ErrorCode.NOT_COORDINATOR)
        return GroupOutcome(replies=tuple(replies))

    def _topics_changed(self, event: MetadataChanged, now_ms: int) -> Decision:
        state = self.state
        state.topics = event.view
        if not state.active:
            return Decision()
        if event.deleted_topics:
            self._sweeps.topics_deleted(state, event.deleted_topics, now_ms)
        return consumer_lifecycle.topics_changed(state, event.changed_topics, now_ms)

    def _fire(self, now_ms: int) -> Decision:
        state = self.state
        decision = Decision(at_once=True)
        for _ in range(TIMERS_PER_STEP):
            # What is decided next depends on what the records of this step will have changed.
            key = None if decision.records else state.timers.pop_due(now_ms)
            if key is None:
                break
            if key.kind is TimerKind.SWEEP:
                return decision.add(self._sweeps.expire(state, now_ms))
            if key.kind is TimerKind.TOPICS_DELETED:
                return decision.add(self._sweeps.forget_deleted(state, now_ms))
            group = state.groups.get(key.group_id)
            if isinstance(group, ClassicGroup):
                decision.add(classic_timers.fired(state, group, key.member_id, key.kind, now_ms))
            elif isinstance(group, ConsumerGroup):
                decision.add(consumer_timers.fired(state, group, key.member_id, key.kind, now_ms))
        return decision

    # -- requests --------------------------------------------------------------------------------------------

    def _answer(self, request: Message, info: RequestInfo, token: Hashable, now_ms: int) -> Decision:
        state = self.state
        match request:
            case OffsetCommitRequest():
                return offset_commit.commit(state, request, info, token, now_ms)
            case HeartbeatRequest():
                group = state.groups.get(request.group_id)
                if _has_members(group):
                    return consumer_migration.heartbeat(state, group, request, info, token, now_ms)
                return classic_heartbeat.handle(state, _classic(group), request, token, now_ms)
            case ConsumerGroupHeartbeatRequest():
                return consumer_heartbeat.handle(state, request, info, token, now_ms)
            case OffsetFetchRequest():
                return answer(token, offset_fetch.fetch(state, request, info))
            case JoinGroupRequest():
                group = state.groups.get(request.group_id)
                if _has_members(group):
                    return consumer_migration.join(state, group, request, info, token, now_ms)
                return classic_join.handle(state, request, info, token, now_ms)
            case SyncGroupRequest():
                group = state.groups.get(request.group_id)
                if _has_members(group):
                    return consumer_migration.sync(state, group, request, info, token, now_ms)
                return classic_sync.handle(state, _classic(group), request, info, token, now_ms)
            case LeaveGroupRequest():
                group = state.groups.get(request.group_id)
                if _has_members(group):
                    return consumer_migration.leave(state, group, request, info, token, now_ms)
                return classic_leave.handle(state, _classic(group), request, info, token, now_ms)
            case TxnOffsetCommitRequest():
                return offset_commit.commit_in_transaction(state, request, info, token, now_ms)
            case ListGroupsRequest():
                return answer(token, admin.list_groups(state, request))
            case DescribeGroupsRequest():
                return answer(token, admin.describe_groups(state, request, info))
            case ConsumerGroupDescribeRequest():
                return answer(token, consumer_describe.handle(state, request))
            case DeleteGroupsRequest():
                return _written(token, *admin.delete_groups(state, request))
            case OffsetDeleteRequest():
                return _written(token, *offset_delete.delete(state, request))
        unsupported = f"{type(request).__name__} is not served by group coordinators"
        return answer(token, KafkaError(ErrorCode.UNSUPPORTED_VERSION, unsupported))


def _has_members(group: Group | None) -> TypeGuard[ConsumerGroup]:
    """A consumer group with members: classic clients that call it become, or are, such members themselves."""
    return isinstance(group, ConsumerGroup) and not group.is_empty


def _classic(group: Group | None) -> ClassicGroup | None:
    return group if isinstance(group, ClassicGroup) else None


def _written(token: Hashable, records: list[GroupRecord], response: Message) -> Decision:
    return Decision(records=records, replies=[Reply(token, response)])
