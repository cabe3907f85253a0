"""JoinGroup.

v0: the rebalance timeout is the session timeout. v1: a separate rebalance timeout. v4: a member without an id
gets MEMBER_ID_REQUIRED and joins again (KIP-394). v5: static members (KIP-345). v7: the protocol name may be
null in errors. v8: a reason, for logs only (KIP-800). v9: SkipAssignment (KIP-814).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from ruslo.machines.groups.classic import rebalance
from ruslo.machines.groups.classic.group import ClassicGroup, ClassicState, group_error
from ruslo.machines.groups.classic.member import ClassicMember, ParkedRequest, Protocols
from ruslo.machines.groups.classic.replacement import replace_static_member
from ruslo.machines.groups.classic.responses import join_error, join_response
from ruslo.machines.groups.events import RequestInfo
from ruslo.machines.groups.group import SHARE, Group
from ruslo.machines.groups.outcome import GroupOutcome, respond
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.machine import Instant, Outcome
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.join_group_request import JoinGroupRequest

MEMBER_ID_REQUIRED_MIN_VERSION = 4


def handle(
    shard: ShardState, request: JoinGroupRequest, info: RequestInfo, token: Hashable, now_ms: int
) -> GroupOutcome:
    """Join an absent or classic group, or an empty group of another type, which is converted."""
    version = info.api_version
    code = check(shard, request)
    if code is not ErrorCode.NONE:
        return respond(token, join_error(code, request.member_id, version))
    known = shard.groups.get(request.group_id)
    if isinstance(known, ClassicGroup):
        return _Join(shard, known, request, info, token, now_ms).decide()
    if known is not None and (known.kind == SHARE or not known.is_empty):
        return respond(token, join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "", version))
    if request.member_id:
        return respond(token, join_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id, version))
    return _create(shard, known, request, info, token, now_ms)


def check(shard: ShardState, request: JoinGroupRequest) -> ErrorCode:
    """The error of a request that is invalid for any group."""
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    low_ms, high_ms = shard.settings.min_session_timeout_ms, shard.settings.max_session_timeout_ms
    if not low_ms <= request.session_timeout_ms <= high_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return ErrorCode.NONE


def _create(
    shard: ShardState,
    replaced: Group | None,
    request: JoinGroupRequest,
    info: RequestInfo,
    token: Hashable,
    now_ms: int,
) -> GroupOutcome:
    group = ClassicGroup(request.group_id, state_ms=shard.wall_ms)
    # The record contains the empty group, and is written even if this member is rejected.
    records = [] if replaced is None else replaced.tombstones()
    records.append(group.to_record())
    group_id = group.group_id
    shard.groups[group_id] = group
    outcome = _Join(shard, group, request, info, token, now_ms).decide()
    outcome.records = [*records, *outcome.records]

    def on_failure(code: ErrorCode, now: Instant) -> GroupOutcome:
        """Remove the member, and the group unless it is in the log or has other members."""
        reverted: GroupOutcome = Outcome()
        for member in list(group.members.values()):
            if member.join is not None and member.join.token == token:
                reverted.replies += rebalance.remove_member(shard, group, member.member_id, code)
        is_unused = not group.members and len(group.pending_joins) <= 1
        if group.recorded or not is_unused or shard.groups.get(group_id) is not group:
            return reverted
        if replaced is not None:
            group.cancel_timers(shard.timers)
            shard.groups[group_id] = replaced
        elif not shard.offsets.has_any(group_id):
            group.cancel_timers(shard.timers)
            del shard.groups[group_id]
        return reverted

    outcome.on_failure = on_failure
    return outcome


@dataclass(eq=False)
class _Join:
    """One JoinGroup request and its group."""

    shard: ShardState
    group: ClassicGroup
    request: JoinGroupRequest
    info: RequestInfo
    token: Hashable
    now_ms: int

    def __post_init__(self) -> None:
        self.protocols: Protocols = tuple(
            (each.name, bytes(each.metadata)) for each in self.request.protocols
        )

    def decide(self) -> GroupOutcome:
        group, request = self.group, self.request
        if not self._fits():
            return self._reject_full()
        if not group.supports(request.protocol_type, self.protocols):
            return self._reject(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if not request.member_id:
            return self._join_first_time()
        # Only dynamic members get such ids; a static member with one could replace another member.
        if request.member_id in group.pending_joins and request.group_instance_id is None:
            self.shard.timers.cancel(TimerKey(group.group_id, request.member_id, TimerKind.PENDING))
            return self._add(request.member_id)
        code = group.check_member(request.member_id, request.group_instance_id)
        if code is not ErrorCode.NONE:
            return self._reject(code)
        return self._rejoin(group.members[request.member_id])

    def _fits(self) -> bool:
        """Whether ``group.max.size`` allows the member."""
        group, member_id = self.group, self.request.member_id
        limit = self.shard.settings.max_size
        if group.state is ClassicState.EMPTY:
            return True
        member = group.members.get(member_id)
        if group.state is ClassicState.PREPARING:
            # Members that have rejoined count: a group that is too large, because the limit was lowered,
            # shrinks to the first that rejoin (KIP-389).
            return (member is not None and member.join is not None) or group.waiting < limit
        return member is not None or len(group.members) < limit

    def _reject_full(self) -> GroupOutcome:
        group, member_id = self.group, self.request.member_id
        outcome: GroupOutcome = Outcome(linearizable=True)
        if member_id in group.members:
            outcome.replies += rebalance.remove_member(self.shard, group, member_id)
            outcome.add(rebalance.complete_if_all_joined(self.shard, group, self.now_ms))
        return outcome.reply(
            self.token, join_error(ErrorCode.GROUP_MAX_SIZE_REACHED, "", self.info.api_version)
        )

    def _join_first_time(self) -> GroupOutcome:
        shard, group, request = self.shard, self.group, self.request
        instance_id = request.group_instance_id
        if instance_id is not None:
            new_id = f"{instance_id}-{shard.new_uuid()}"
            holder = group.static_members.get(instance_id)
            if holder is None:
                return self._add(new_id)
            member = group.members[holder]
            return replace_static_member(
                shard, group, member, new_id, self._renewed, self._park(), self.now_ms
            )
        new_id = f"{self.info.client_id}-{shard.new_uuid()}"
        if self.info.api_version < MEMBER_ID_REQUIRED_MIN_VERSION:
            return self._add(new_id)
        group.pending_joins.add(new_id)
        deadline_ms = self.now_ms + request.session_timeout_ms
        shard.timers.set(TimerKey(group.group_id, new_id, TimerKind.PENDING), deadline_ms)
        return respond(self.token, join_error(ErrorCode.MEMBER_ID_REQUIRED, new_id, self.info.api_version))

    def _add(self, member_id: str) -> GroupOutcome:
        shard, group, request = self.shard, self.group, self.request
        member = ClassicMember(
            member_id,
            instance_id=request.group_instance_id,
            client_id=self.info.client_id,
            client_host=self.info.client_host,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=self.protocols,
        )
        member.is_new = True
        member.join = self._park()
        group.add(member, request.protocol_type)
        if group.state is ClassicState.PREPARING and group.previous_state is ClassicState.EMPTY:
            group.newcomers_during_delay = True
        deadline_ms = self.now_ms + rebalance.NEW_MEMBER_TIMEOUT_MS
        shard.timers.set(TimerKey(group.group_id, member_id, TimerKind.SESSION), deadline_ms)
        return rebalance.membership_changed(shard, group, self.now_ms)

    def _rejoin(self, member: ClassicMember) -> GroupOutcome:
        group = self.group
        same = member.protocols == self.protocols
        if group.state is ClassicState.COMPLETING and same:
            # The response to its JoinGroup was lost: send it again.
            return respond(self.token, join_response(group, member))
        if group.state is ClassicState.STABLE and same and group.leader != member.member_id:
            return respond(self.token, join_response(group, member))
        outcome: GroupOutcome = Outcome()
        if member.join is not None:
            # The member has given up its earlier request, but its connection may still be open.
            outcome.reply(member.join.token, group_error(ErrorCode.REBALANCE_IN_PROGRESS, group.group_id))
        else:
            group.waiting += 1
        self._renewed(member)
        member.join = self._park()
        changed = rebalance.membership_changed(self.shard, group, self.now_ms)
        changed.replies[:0] = outcome.replies
        return changed

    def _renewed(self, member: ClassicMember) -> None:
        """Update the properties that a member sends with each JoinGroup."""
        self.group.set_protocols(member, self.protocols)
        member.rebalance_timeout_ms = self._rebalance_timeout_ms
        member.session_timeout_ms = self.request.session_timeout_ms

    @property
    def _rebalance_timeout_ms(self) -> int:
        request = self.request
        return request.session_timeout_ms if self.info.api_version == 0 else request.rebalance_timeout_ms

    def _park(self) -> ParkedRequest:
        return ParkedRequest(self.token, self.info.api_version)

    def _reject(self, code: ErrorCode) -> GroupOutcome:
        return respond(self.token, join_error(code, self.request.member_id, self.info.api_version))
