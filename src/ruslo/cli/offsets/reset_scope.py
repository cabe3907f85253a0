"""The partitions that reset-offsets and delete-offsets apply to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ruslo.cli.arguments.partition_scope import Scope, partitions_in
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin


def committed_in(
    group_id: str, committed: Iterable[TopicPartition], scopes: Sequence[Scope]
) -> list[TopicPartition]:
    """The partitions of the scopes that the group has committed offsets for; without scopes, all of them."""
    known = sorted(committed)
    if not scopes:
        if not known:
            raise _nothing_committed(group_id)
        return known
    found: dict[TopicPartition, None] = {}
    for scope in scopes:
        of_scope = [p for p in known if p.topic == scope.topic and p.partition in _numbers(scope, known)]
        missing = sorted(set(scope.partitions or ()) - {p.partition for p in of_scope})
        if missing or not of_scope:
            what = f"{scope.topic}-{missing[0]}" if missing else f"topic {scope.topic!r}"
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Group {group_id!r} has no committed offset for {what}"
            )
        found |= dict.fromkeys(of_scope)
    return sorted(found)


def _numbers(scope: Scope, known: Iterable[TopicPartition]) -> set[int]:
    return set(scope.partitions) if scope.partitions is not None else {p.partition for p in known}


async def existing_in(
    admin: Admin, group_id: str, committed: Iterable[TopicPartition], scopes: Sequence[Scope]
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """The existing and the deleted partitions of the scopes.

    Without scopes these are the partitions that the group has committed offsets for. Offsets outlive their
    topics, so some of the partitions may be deleted.
    """
    if scopes:
        return await partitions_in(admin, scopes), []
    known = sorted(committed)
    if not known:
        raise _nothing_committed(group_id)
    topics = (await admin.cluster.metadata({partition.topic for partition in known})).topics
    present = [p for p in known if p.topic in topics and topics[p.topic].partition(p.partition)]
    return present, [p for p in known if p not in set(present)]


def _nothing_committed(group_id: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {group_id!r} has no committed offsets. Choose topics with --topic",
    )
