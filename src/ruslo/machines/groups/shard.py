"""The machine of one partition of ``__consumer_offsets``: every group whose id hashes to it.

Its records are replayed when they are appended, so it always decides on its own latest decision. A read
without records is linearizable: its response waits until every record it depends on is committed. Transaction
markers of the partition are replayed as ``EndTxnMarker``.

A classic group is the exception that its protocol requires (ADR 14). Its joins exist only in memory and its
record is a snapshot of them. While this node leads, the group in memory is authoritative, and ``on_failure``
reverts it when the record could not be written.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeGuard

from ruslo.machines.assignors.streams.builtin import BUILTIN_TASK_ASSIGNORS
from ruslo.machines.assignors.streams.model import TaskAssignor
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
from ruslo.machines.groups.errors import append_error
from ruslo.machines.groups.events import (
    GroupEvent,
    GroupQuery,
    MetadataChanged,
    RegexResolved,
    RequestInfo,
    TargetComputed,
)
from ruslo.machines.groups.group import Group
from ruslo.machines.groups.offsets import commit as offset_commit
from ruslo.machines.groups.offsets import delete as offset_delete
from ruslo.machines.groups.offsets import fetch as offset_fetch
from ruslo.machines.groups.offsets.sweeps import Sweeps
from ruslo.machines.groups.outcome import (
    GroupOutcome,
    GroupReply,
    Response,
    respond,
)
from ruslo.machines.groups.records import EndTxnMarker, GroupRecord
from ruslo.machines.groups.settings import GroupSettings
from ruslo.machines.groups.share import deletion as share_deletion
from ruslo.machines.groups.share import describe as share_describe
from ruslo.machines.groups.share import heartbeat as share_heartbeat
from ruslo.machines.groups.share import lifecycle as share_lifecycle
from ruslo.machines.groups.share import offsets as share_offsets
from ruslo.machines.groups.share import pending as share_pending
from ruslo.machines.groups.share.events import ShareStateDeleted, ShareStateInitialized
from ruslo.machines.groups.share.group import ShareGroup
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.streams import describe as streams_describe
from ruslo.machines.groups.streams import descriptions as streams_descriptions
from ruslo.machines.groups.streams import heartbeat as streams_heartbeat
from ruslo.machines.groups.streams import lifecycle as streams_lifecycle
from ruslo.machines.groups.streams import target as streams_target
from ruslo.machines.groups.streams import timers as streams_timers
from ruslo.machines.groups.streams.group import StreamsGroup
from ruslo.machines.groups.timers import TimerKind
from ruslo.machines.groups.topics_view import TopicsView
from ruslo.machines.machine import (
    MAX_ITEMS_PER_EVENT,
    AppendCommitted,
    AppendFailed,
    Instant,
    Loaded,
    Outcome,
    Reply,
    Requested,
    TimerFired,
)
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid, random_uuid
from ruslo.protocol.message import Message
from ruslo.protocol.messages.alter_share_group_offsets_request import AlterShareGroupOffsetsRequest
from ruslo.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ruslo.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ruslo.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ruslo.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from ruslo.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ruslo.protocol.messages.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequest
from ruslo.protocol.messages.heartbeat_request import HeartbeatRequest
from ruslo.protocol.messages.join_group_request import JoinGroupRequest
from ruslo.protocol.messages.leave_group_request import LeaveGroupRequest
from ruslo.protocol.messages.list_groups_request import ListGroupsRequest
from ruslo.protocol.messages.offset_commit_request import OffsetCommitRequest
from ruslo.protocol.messages.offset_delete_request import OffsetDeleteRequest
from ruslo.protocol.messages.offset_fetch_request import OffsetFetchRequest
from ruslo.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from ruslo.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from ruslo.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from ruslo.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from ruslo.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from ruslo.protocol.messages.sync_group_request import SyncGroupRequest
from ruslo.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest


class GroupShard:
    def __init__(
        self,
        settings: GroupSettings,
        assignors: AssignorPort,
        topics: TopicsView | None = None,
        random_uuid: Callable[[], Uuid] = random_uuid,
        task_assignors: Mapping[str, TaskAssignor] = BUILTIN_TASK_ASSIGNORS,
    ) -> None:
        self.state = ShardState(settings, assignors, topics, random_uuid, task_assignors)
        self._sweeps = Sweeps()

    def change_settings(self, settings: GroupSettings) -> None:
        """Use these settings from the next event on; timers that are set keep their deadlines."""
        self.state.settings = settings

    def handle(self, event: GroupEvent, now: Instant) -> GroupOutcome:
        state = self.state
        now_ms, state.wall_ms = now
        if isinstance(event, Requested):
            if not state.active:
                error = KafkaError(ErrorCode.NOT_COORDINATOR, "this node does not lead the group's partition")
                return Outcome(replies=[Reply(event.token, error)])
            return self._request(event.request, event.context, event.token, now_ms)
        if isinstance(event, TimerFired):
            return self._fire(now_ms)
        if isinstance(event, MetadataChanged):
            return self._topics_changed(event, now_ms)
        if isinstance(event, AppendFailed):
            return self._append_failed(event, now)
        if isinstance(event, RegexResolved):
            return consumer_lifecycle.regex_resolved(state, event, now_ms)
        if isinstance(event, TargetComputed):
            group = state.groups.get(event.group_id)
            if isinstance(group, StreamsGroup):
                return streams_target.computed(state, group, event, now_ms)
            return consumer_lifecycle.target_computed(state, event, now_ms)
        if isinstance(event, AppendCommitted):
            # Most outcomes have none of these effects.
            due = (effect for each in event.outcomes for effect in each.effects_on_commit)
            return Outcome(effects=list(due))
        if isinstance(event, ShareStateInitialized):
            return share_offsets.altered(state, event)
        if isinstance(event, ShareStateDeleted):
            return share_deletion.deleted(state, event)
        if isinstance(event, Loaded):
            return self._load(now_ms)
        return self._unload()

    def replay(self, record: GroupRecord | EndTxnMarker, offset: int) -> None:
        """Apply one record or transaction marker.

        Raises CorruptLogError for an invalid record; the partition must not be served then.
        """
        records_replay.replay(self.state, record, offset)

    def deadline_ms(self) -> int | None:
        return self.state.timers.deadline_ms()

    # -- events ----------------------------------------------------------------------------------------------

    def _append_failed(
        self, event: AppendFailed[GroupRecord, Response, GroupQuery], now: Instant
    ) -> GroupOutcome:
        code = append_error(event.code)
        error = KafkaError(code, f"the group's records could not be written: {event.code.name}")
        failed: GroupOutcome = Outcome()
        for outcome in event.outcomes:
            failed.add(outcome.failure(code, error, now))
        return failed

    def _load(self, now_ms: int) -> GroupOutcome:
        state = self.state
        state.active = True
        outcome: GroupOutcome = Outcome()
        for group in list(state.groups.values()):
            if isinstance(group, ClassicGroup):
                outcome.add(classic_timers.loaded(state, group, now_ms))
            elif isinstance(group, StreamsGroup):
                streams_lifecycle.loaded(state, group, now_ms)
        outcome.add(consumer_lifecycle.loaded(state, now_ms))
        share_lifecycle.loaded(state, now_ms)
        self._sweeps.start(state, now_ms)
        return outcome

    def _unload(self) -> GroupOutcome:
        state = self.state
        state.active = False
        state.timers.clear()
        replies: list[GroupReply] = share_pending.drop_all(state)
        for group in state.groups.values():
            if isinstance(group, ClassicGroup):
                replies += group.drop_parked(ErrorCode.NOT_COORDINATOR)
        return Outcome(replies=replies)

    def _topics_changed(self, event: MetadataChanged, now_ms: int) -> GroupOutcome:
        state = self.state
        state.topics = event.view
        if not state.active:
            return Outcome()
        if event.deleted_topics:
            self._sweeps.topics_deleted(state, event.deleted_topics, now_ms)
        streams_lifecycle.topics_changed(state, event.changed_topics)
        share_lifecycle.topics_changed(state, event.changed_topics, event.deleted_topic_ids, now_ms)
        return consumer_lifecycle.topics_changed(state, event.changed_topics, now_ms)

    def _fire(self, now_ms: int) -> GroupOutcome:
        state = self.state
        outcome: GroupOutcome = Outcome()
        for _ in range(MAX_ITEMS_PER_EVENT):
            # The next timer may depend on the records of this one, so those are replayed first.
            key = None if outcome.records else state.timers.pop_due(now_ms)
            if key is None:
                break
            if key.kind is TimerKind.SWEEP:
                return outcome.add(self._sweeps.expire(state, now_ms))
            if key.kind is TimerKind.TOPICS_DELETED:
                return outcome.add(self._sweeps.forget_deleted(state, now_ms))
            group = state.groups.get(key.group_id)
            if isinstance(group, ClassicGroup):
                outcome.add(classic_timers.fired(state, group, key.member_id, key.kind, now_ms))
            elif isinstance(group, ConsumerGroup):
                outcome.add(consumer_timers.fired(state, group, key.member_id, key.kind, now_ms))
            elif isinstance(group, StreamsGroup):
                outcome.add(streams_timers.fired(state, group, key.member_id, key.kind, now_ms))
            elif isinstance(group, ShareGroup):
                outcome.add(share_lifecycle.fired(state, group, key.member_id, key.kind))
        return outcome

    # -- requests --------------------------------------------------------------------------------------------

    def _request(self, request: Message, info: RequestInfo, token: Hashable, now_ms: int) -> GroupOutcome:
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
            case StreamsGroupHeartbeatRequest():
                return streams_heartbeat.handle(state, request, info, token, now_ms)
            case OffsetFetchRequest():
                return respond(token, offset_fetch.fetch(state, request, info))
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
                return respond(token, admin.list_groups(state, request))
            case DescribeGroupsRequest():
                return respond(token, admin.describe_groups(state, request, info))
            case ConsumerGroupDescribeRequest():
                return respond(token, consumer_describe.handle(state, request))
            case StreamsGroupDescribeRequest():
                return respond(token, streams_describe.handle(state, request, info))
            case StreamsGroupTopologyDescriptionUpdateRequest():
                return respond(token, streams_descriptions.handle(state, request))
            case DeleteGroupsRequest():
                return share_deletion.delete_groups(state, request, token)
            case OffsetDeleteRequest():
                return _written(token, *offset_delete.delete(state, request))
            case ShareGroupHeartbeatRequest():
                return share_heartbeat.handle(state, request, info, token, now_ms)
            case ShareGroupDescribeRequest():
                return respond(token, share_describe.handle(state, request))
            case DescribeShareGroupOffsetsRequest():
                return respond(token, share_describe.initialized_partitions(state, request))
            case AlterShareGroupOffsetsRequest():
                return share_offsets.alter(state, request, token, now_ms)
            case DeleteShareGroupOffsetsRequest():
                return share_offsets.delete(state, request, token)
        unsupported = f"{type(request).__name__} is not served by group coordinators"
        return respond(token, KafkaError(ErrorCode.UNSUPPORTED_VERSION, unsupported))


def _has_members(group: Group | None) -> TypeGuard[ConsumerGroup]:
    """A consumer group with members; classic clients that join it become its members (KIP-848)."""
    return isinstance(group, ConsumerGroup) and not group.is_empty


def _classic(group: Group | None) -> ClassicGroup | None:
    return group if isinstance(group, ClassicGroup) else None


def _written(token: Hashable, records: list[GroupRecord], response: Message) -> GroupOutcome:
    return Outcome(records, [Reply(token, response)])
