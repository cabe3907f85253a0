"""The checks of commits and fetches of a streams group's offsets.

As in consumer groups, a commit with an older epoch is valid for tasks that have been active at the member
since that epoch (KIP-1251).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ruslo.machines.assignors.streams.model import TaskId
from ruslo.machines.groups.group import Committer
from ruslo.model.errors import ErrorCode

if TYPE_CHECKING:
    from ruslo.machines.groups.streams.group import StreamsGroup
    from ruslo.machines.groups.streams.member import StreamsMember

_MEMBER_EPOCH_MIN_VERSION = 9
"""OffsetCommit below this version does not know STALE_MEMBER_EPOCH."""


def check_commit(group: StreamsGroup, committer: Committer) -> ErrorCode:
    if committer.epoch < 0 and not group.members:
        return ErrorCode.NONE
    if committer.is_anonymous_transaction:
        return ErrorCode.NONE
    member = group.members.get(committer.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not committer.transactional and committer.api_version < _MEMBER_EPOCH_MIN_VERSION:
        return ErrorCode.UNSUPPORTED_VERSION
    if committer.epoch == member.epoch:
        return ErrorCode.NONE
    if committer.epoch < member.epoch and _had_all_tasks(group, member, committer):
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH


def _had_all_tasks(group: StreamsGroup, member: StreamsMember, committer: Committer) -> bool:
    topology = group.topology
    if topology is None:
        return False
    for topic, partition in committer.partitions():
        subtopology_id = topology.subtopology_by_source.get(topic.name)
        if subtopology_id is None:
            return False
        since = member.assignment_epoch(TaskId(subtopology_id, partition))
        if since is None or committer.epoch < since:
            return False
    return True


def check_fetch(group: StreamsGroup, member_id: str | None, member_epoch: int) -> ErrorCode:
    if member_id is None and member_epoch < 0:
        return ErrorCode.NONE
    member = None if member_id is None else group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if member_epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH
