"""Errors that clients receive when the share coordinator rejects a request, as in Apache Kafka."""

from __future__ import annotations

from typing import Final

from ruslo.model.errors import ErrorCode, KafkaError

_CLIENT_ERRORS: Final = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    # Another leader has read the state, or the group coordinator has initialized it again.
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}

FENCING: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors after which a share-partition has to be loaded again."""


def persister_error(code: int, message: str | None) -> KafkaError | None:
    """The error for clients; None if the request succeeded."""
    if code == ErrorCode.NONE:
        return None
    return KafkaError(_CLIENT_ERRORS.get(ErrorCode(code), ErrorCode.UNKNOWN_SERVER_ERROR), message or "")
