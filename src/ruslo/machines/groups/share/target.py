"""The target assignment of a share group: the simple assignor on the partitions that have a state."""

from __future__ import annotations

from collections.abc import Mapping

from ruslo.machines.assignors import simple
from ruslo.machines.assignors.spec import MemberSpec, Partitions
from ruslo.machines.groups.modern import NOTHING, existing_topic_ids
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.share.group import ShareGroup
from ruslo.machines.groups.share.member import ShareMember
from ruslo.machines.groups.share.records import target_epoch_record, target_record
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.topics_view import TopicsView
from ruslo.model.ids import Uuid


def update(
    shard: ShardState, group: ShareGroup, group_epoch: int, new: ShareMember, outcome: GroupOutcome
) -> tuple[int, Partitions]:
    """Compute a new target if that is due. Returns the target epoch and the target of ``new``.

    ``new`` joins or changes in this outcome, and the group epoch becomes ``group_epoch``.
    """
    interval_ms = shard.settings.share_assignment_interval_of(group.group_id)
    if group.target_epoch >= group_epoch or group.is_target_recent(shard.wall_ms, interval_ms):
        return group.target_epoch, group.target.get(new.member_id, NOTHING)
    specs = _specs(group, {**group.members, new.member_id: new}, shard.topics)
    result = simple.assign(specs, _assignable(group, shard.topics))
    group_id = group.group_id
    outcome.append(
        target_record(group_id, member_id, target)
        for member_id, target in group.changed_targets(specs, result)
    )
    outcome.append([target_epoch_record(group_id, group_epoch, shard.wall_ms)])
    return group_epoch, result[new.member_id]


def _specs(group: ShareGroup, members: Mapping[str, ShareMember], view: TopicsView) -> dict[str, MemberSpec]:
    topic_ids = {
        names: existing_topic_ids(names, view)
        for names in {member.topic_names for member in members.values()}
    }
    return {
        member_id: MemberSpec(
            member_id,
            topic_ids[member.topic_names],
            group.target.get(member_id, NOTHING),
            rack_id=member.rack_id,
            client_id=member.client_id,
        )
        for member_id, member in members.items()
    }


def _assignable(group: ShareGroup, view: TopicsView) -> dict[Uuid, list[int]]:
    return {
        topic.id: [index for index in known.partitions if index < topic.partition_count]
        for topic_id, known in group.states.initialized.items()
        if (topic := view.by_id(topic_id)) is not None
    }
