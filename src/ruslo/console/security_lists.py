"""Lists of the security pages, or the sentence that says why the cluster does not show them."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from http import HTTPStatus
from typing import Generic, NamedTuple, TypeVar

from ruslo.model.errors import ErrorCode, KafkaError

T = TypeVar("T")

NO_AUTHORIZER = (
    "This cluster has no authorizer, so it has no ACLs and every client may do everything. To use ACLs, set "
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer in the property file of "
    "every node."
)


class SecurityList(NamedTuple, Generic[T]):
    rows: Sequence[T]
    reason: str | None = None
    """Why there are no rows, and the fix."""
    status: int = HTTPStatus.OK


async def listed_or_reason(query: Awaitable[Sequence[T]], what: str, operation: str) -> SecurityList[T]:
    """``what`` is listed, which needs ``operation`` on the cluster."""
    try:
        return SecurityList(await query)
    except KafkaError as error:
        if error.code is ErrorCode.SECURITY_DISABLED:
            return SecurityList((), NO_AUTHORIZER)
        if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return SecurityList((), not_authorized(f"list {what}", operation), HTTPStatus.FORBIDDEN)
        raise


def not_authorized(action: str, operation: str) -> str:
    return (
        f"You are not authorized to {action}. An administrator can allow it: "
        f"ruslo acl allow User:NAME {operation} cluster."
    )
