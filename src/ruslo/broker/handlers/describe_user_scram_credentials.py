"""DescribeUserScramCredentials v0 (KIP-554): users with SCRAM credentials, without secrets.

No users, or null, means all.
"""

from __future__ import annotations

from collections import Counter

from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
)
from ruslo.protocol.messages.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(
    services: NodeServices, request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    stored: dict[str, list[CredentialInfo]] = {}
    for (user, mechanism), record in services.metadata.image.security.scram_credentials.items():
        info = CredentialInfo(mechanism=mechanism, iterations=record.iterations)
        stored.setdefault(user, []).append(info)
    wanted = Counter(user.name for user in request.users or ()) or Counter(stored.keys())
    return DescribeUserScramCredentialsResponse(
        error_message=None,
        results=[_result(user, count, stored.get(user)) for user, count in wanted.items()],
    )


def _result(user: str, count: int, infos: list[CredentialInfo] | None) -> DescribeUserScramCredentialsResult:
    if count > 1:
        return DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message=f"User {user!r} is in the request more than once: name each user once",
        )
    if infos is None:
        return DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"User {user!r} has no SCRAM credentials",
        )
    return DescribeUserScramCredentialsResult(user=user, error_message=None, credential_infos=infos)
