"""Requests that wait for the share coordinator. They are soft state: unloading the shard fails them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TypeAlias

from ruslo.machines.groups.outcome import GroupOutcome, GroupReply
from ruslo.machines.groups.share.events import ShareQuery
from ruslo.machines.groups.state import ShardState
from ruslo.machines.machine import Instant, Outcome, Reply
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.protocol.messages.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse
from ruslo.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ruslo.protocol.messages.delete_share_group_offsets_response import DeleteShareGroupOffsetsResponse


@dataclass(slots=True, eq=False)
class PendingAlter:
    """AlterShareGroupOffsets, and its response without the errors of the share coordinator."""

    response: AlterShareGroupOffsetsResponse


@dataclass(slots=True, eq=False)
class PendingOffsetDeletion:
    """DeleteShareGroupOffsets, and its response so far."""

    response: DeleteShareGroupOffsetsResponse
    names: dict[Uuid, str]
    """The topics that are being deleted."""


@dataclass(slots=True, eq=False)
class PendingGroupDeletion:
    """DeleteGroups with share groups, whose states are deleted first."""

    request: DeleteGroupsRequest
    waiting: set[str] = field(default_factory=set)
    """Share groups without a result yet."""
    errors: dict[str, ErrorCode] = field(default_factory=dict)


PendingRequest: TypeAlias = PendingAlter | PendingOffsetDeletion | PendingGroupDeletion


def wait(
    shard: ShardState,
    token: Hashable,
    pending: PendingRequest,
    queries: list[ShareQuery],
    outcome: GroupOutcome,
) -> None:
    """Keep the request until the results of these queries, which follow the commit of the outcome, arrive."""
    shard.share_requests[token] = pending
    outcome.effects_on_commit = (*outcome.effects_on_commit, *queries)

    def on_failure(code: ErrorCode, now: Instant) -> GroupOutcome:
        if shard.share_requests.pop(token, None) is None:
            return Outcome()
        error = KafkaError(code, "The change of the share group could not be written. Try again.")
        return Outcome(replies=[Reply(token, error)])

    outcome.add(Outcome(on_failure=on_failure))


def drop_all(shard: ShardState) -> list[GroupReply]:
    """The replies to all waiting requests of a shard that is unloaded."""
    error = KafkaError(ErrorCode.NOT_COORDINATOR, "this node does not lead the group's partition any more")
    replies: list[GroupReply] = [Reply(token, error) for token in shard.share_requests]
    shard.share_requests.clear()
    return replies
