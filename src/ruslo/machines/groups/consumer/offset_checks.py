"""Who may commit and fetch offsets of a consumer group.

A commit under an older epoch is still good for partitions the member has had since then (KIP-1251): its
heartbeat may have raised the epoch while the commit was on its way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ruslo.machines.groups.group import Committer
from ruslo.model.errors import ErrorCode

if TYPE_CHECKING:
    from ruslo.machines.groups.consumer.group import ConsumerGroup

_FIRST_EPOCH_VERSION = 9
"""Of OffsetCommit; earlier ones cannot say STALE_MEMBER_EPOCH."""


def check_commit(group: ConsumerGroup, committer: Committer) -> ErrorCode:
    if committer.epoch < 0 and not group.members:
        return ErrorCode.NONE
    if (
        committer.transactional
        and committer.epoch == -1
        and not committer.member_id
        and committer.instance_id is None
    ):
        return ErrorCode.NONE
    member = group.members.get(committer.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    is_classic = member.classic is not None
    if not committer.transactional and not is_classic and committer.api_version < _FIRST_EPOCH_VERSION:
        return ErrorCode.UNSUPPORTED_VERSION
    if committer.epoch == member.epoch:
        return ErrorCode.NONE
    if committer.epoch < member.epoch and all(
        (since := member.assignment_epoch(topic_id, partition)) is not None and committer.epoch >= since
        for topic_id, partition in committer.partitions()
    ):
        return ErrorCode.NONE
    return _wrong_epoch(is_classic or committer.transactional)


def check_fetch(group: ConsumerGroup, member_id: str | None, member_epoch: int) -> ErrorCode:
    if member_id is None and member_epoch < 0:
        return ErrorCode.NONE
    member = None if member_id is None else group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member_epoch != member.epoch:
        return _wrong_epoch(member.classic is not None)
    return ErrorCode.NONE


def _wrong_epoch(classic_words: bool) -> ErrorCode:
    return ErrorCode.ILLEGAL_GENERATION if classic_words else ErrorCode.STALE_MEMBER_EPOCH
