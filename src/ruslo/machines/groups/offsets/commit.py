"""OffsetCommit and TxnOffsetCommit.

OffsetCommit: v2-4 may set a retention time; v6: leader epochs; v7: static members; v9: member epochs
(KIP-848) and their errors; v10: topic ids. TxnOffsetCommit: v2: leader epochs; v3: members (KIP-447); v6:
topic ids and the errors of member epochs (KIP-1319).

A commit without a member (negative generation) creates a group that consists only of its offsets.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple, TypeAlias

from ruslo.machines.groups.classic import rebalance
from ruslo.machines.groups.classic.group import ClassicGroup, ClassicState
from ruslo.machines.groups.events import RequestInfo
from ruslo.machines.groups.group import Committer, Group
from ruslo.machines.groups.outcome import GroupOutcome, respond
from ruslo.machines.groups.records import NO_TIMESTAMP, GroupRecord, Producer, offset_record
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.topics_view import TopicInfo
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import ZERO_UUID
from ruslo.protocol.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestPartition
from ruslo.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ruslo.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
)
from ruslo.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

TOPIC_IDS_MIN_VERSION = 10
TXN_TOPIC_IDS_MIN_VERSION = 6
MEMBER_EPOCH_ERRORS_MIN_VERSION = 9
TXN_MEMBER_EPOCH_ERRORS_MIN_VERSION = 6
NO_RETENTION = -1
_LAST_MS = 2**63 - 1

_Offset: TypeAlias = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
_Result: TypeAlias = OffsetCommitResponsePartition | TxnOffsetCommitResponsePartition


class _Accepted(NamedTuple):
    """A partition that exists; ``result`` receives its error code."""

    topic: TopicInfo
    offset: _Offset
    result: _Result


def commit(
    shard: ShardState, request: OffsetCommitRequest, info: RequestInfo, token: Hashable, now_ms: int
) -> GroupOutcome:
    by_id = info.api_version >= TOPIC_IDS_MIN_VERSION
    accepted: list[_Accepted] = []
    response = OffsetCommitResponse()
    for topic in request.topics:
        found = shard.topics.by_id(topic.topic_id) if by_id else shard.topics.by_name(topic.name)
        results = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        response.topics.append(results)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for offset in topic.partitions:
            result = OffsetCommitResponsePartition(partition_index=offset.partition_index)
            results.partitions.append(result)
            if found is None:
                result.error_code = unknown
            elif not 0 <= offset.partition_index < found.partition_count:
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                accepted.append(_Accepted(found, offset, result))
    outcome = respond(token, response)
    if not accepted:
        return outcome
    group = shard.groups.get(request.group_id)
    committer = Committer(
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        info.api_version,
        False,
        lambda: _partitions(shard, accepted),
    )
    code = _check(group, committer)
    if code is not ErrorCode.NONE:
        return _reject(outcome, accepted, code)
    if isinstance(group, ClassicGroup) and group.state is not ClassicState.COMPLETING:
        member = group.members.get(request.member_id)
        if member is not None:
            rebalance.renew_session(shard, group, member, now_ms)
    retention_ms = request.retention_time_ms
    # The largest retention means "forever"; the sum with the current time would not fit into 64 bits.
    expire_ms = NO_TIMESTAMP if retention_ms == NO_RETENTION else min(shard.wall_ms + retention_ms, _LAST_MS)
    outcome.records = _records(shard, request.group_id, accepted, expire_ms, with_topic_id=True)
    return outcome


def commit_in_transaction(
    shard: ShardState, request: TxnOffsetCommitRequest, info: RequestInfo, token: Hashable, now_ms: int
) -> GroupOutcome:
    """Commit in a transaction, which was verified to contain this group's partition."""
    by_id = info.api_version >= TXN_TOPIC_IDS_MIN_VERSION
    accepted: list[_Accepted] = []
    response = TxnOffsetCommitResponse()
    for topic in request.topics:
        found = shard.topics.by_id(topic.topic_id) if by_id else shard.topics.by_name(topic.name)
        results = TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        response.topics.append(results)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for offset in topic.partitions:
            result = TxnOffsetCommitResponsePartition(partition_index=offset.partition_index)
            results.partitions.append(result)
            if found is None:
                result.error_code = unknown
            elif not 0 <= offset.partition_index < found.partition_count:
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                accepted.append(_Accepted(found, offset, result))
    outcome = respond(token, response)
    if not accepted:
        return outcome
    committer = Committer(
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        info.api_version,
        True,
        lambda: _partitions(shard, accepted),
    )
    code = ErrorCode.NONE if request.group_id else ErrorCode.INVALID_GROUP_ID
    if code is ErrorCode.NONE:
        code = _check(shard.groups.get(request.group_id), committer)
    if code is not ErrorCode.NONE:
        return _reject(outcome, accepted, code)
    producer = Producer(request.producer_id, request.producer_epoch)
    outcome.records = [
        record._replace(producer=producer)
        for record in _records(shard, request.group_id, accepted, NO_TIMESTAMP, with_topic_id=by_id)
    ]
    return outcome


def _check(group: Group | None, committer: Committer) -> ErrorCode:
    if group is not None:
        code = group.check_offset_commit(committer)
        if committer.transactional and code is ErrorCode.STALE_MEMBER_EPOCH:
            # Older transactional producers know only the errors of generations.
            return code if _knows_member_epochs(committer) else ErrorCode.ILLEGAL_GENERATION
        return code
    if committer.epoch < 0:
        return ErrorCode.NONE
    if _knows_member_epochs(committer):
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.ILLEGAL_GENERATION


def _knows_member_epochs(committer: Committer) -> bool:
    """Whether the client knows GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH."""
    if committer.transactional:
        return committer.api_version >= TXN_MEMBER_EPOCH_ERRORS_MIN_VERSION
    return committer.api_version >= MEMBER_EPOCH_ERRORS_MIN_VERSION


def _reject(outcome: GroupOutcome, accepted: list[_Accepted], code: ErrorCode) -> GroupOutcome:
    for each in accepted:
        each.result.error_code = code
    return outcome


def _records(
    shard: ShardState, group_id: str, accepted: list[_Accepted], expire_ms: int, *, with_topic_id: bool
) -> list[GroupRecord]:
    records: list[GroupRecord] = []
    limit = shard.settings.offset_metadata_max_chars
    for topic, offset, result in accepted:
        metadata = offset.committed_metadata or ""
        if _utf16_units(metadata) > limit:
            result.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        records.append(
            offset_record(
                group_id,
                topic.name,
                offset.partition_index,
                offset=offset.committed_offset,
                leader_epoch=offset.committed_leader_epoch,
                metadata=metadata,
                commit_ms=shard.wall_ms,
                expire_ms=expire_ms,
                topic_id=topic.id if with_topic_id else ZERO_UUID,
            )
        )
    return records


def _utf16_units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def _partitions(shard: ShardState, accepted: list[_Accepted]) -> Iterator[tuple[TopicInfo, int]]:
    limit = shard.settings.offset_metadata_max_chars
    for topic, offset, _ in accepted:
        if _utf16_units(offset.committed_metadata or "") <= limit:
            yield topic, offset.partition_index
