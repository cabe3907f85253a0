"""The timers of a streams group."""

from __future__ import annotations

from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.streams import fencing, target
from ruslo.machines.groups.streams.group import StreamsGroup
from ruslo.machines.groups.streams.member import MemberState
from ruslo.machines.groups.timers import TimerKind
from ruslo.machines.machine import Outcome


def fired(
    shard: ShardState, group: StreamsGroup, member_id: str | None, kind: TimerKind, now_ms: int
) -> GroupOutcome:
    if kind is TimerKind.INITIAL_DELAY:
        return target.first(shard, group, now_ms)
    member = None if member_id is None else group.members.get(member_id)
    if member is None:
        return Outcome()
    is_over = kind is TimerKind.SESSION or (
        kind is TimerKind.REBALANCE and member.state is MemberState.UNREVOKED
    )
    return fencing.remove(shard, group, [member]) if is_over else Outcome()
