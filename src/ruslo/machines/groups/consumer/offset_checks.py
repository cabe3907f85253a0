"""The checks of commits and fetches of a consumer group's offsets.

A commit with an older epoch is valid for partitions that the member has owned since that epoch (KIP-1251):
its heartbeat may have bumped the epoch while the commit was in flight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ruslo.machines.groups.group import Committer
from ruslo.model.errors import ErrorCode

if TYPE_CHECKING:
    from ruslo.machines.groups.consumer.group import ConsumerGroup

_MEMBER_EPOCH_MIN_VERSION = 9
"""OffsetCommit below this version does not know STALE_MEMBER_EPOCH."""


def check_commit(group: ConsumerGroup, committer: Committer) -> ErrorCode:
    if committer.epoch < 0 and not group.members:
        return ErrorCode.NONE
    if committer.is_anonymous_transaction:
        return ErrorCode.NONE
    member = group.members.get(committer.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    is_classic = member.classic is not None
    if not committer.transactional and not is_classic and committer.api_version < _MEMBER_EPOCH_MIN_VERSION:
        return ErrorCode.UNSUPPORTED_VERSION
    if committer.epoch == member.epoch:
        return ErrorCode.NONE
    if committer.epoch < member.epoch and all(
        (since := member.assignment_epoch(topic.id, partition)) is not None and committer.epoch >= since
        for topic, partition in committer.partitions()
    ):
        return ErrorCode.NONE
    return _wrong_epoch(is_classic)


def check_fetch(group: ConsumerGroup, member_id: str | None, member_epoch: int) -> ErrorCode:
    if member_id is None and member_epoch < 0:
        return ErrorCode.NONE
    member = None if member_id is None else group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member_epoch != member.epoch:
        return _wrong_epoch(member.classic is not None)
    return ErrorCode.NONE


def _wrong_epoch(is_classic: bool) -> ErrorCode:
    return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH
