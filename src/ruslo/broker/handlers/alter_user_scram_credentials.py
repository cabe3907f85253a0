"""AlterUserScramCredentials v0 (KIP-554): rejected for each user, because no listener supports SASL."""

from __future__ import annotations

from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
from ruslo.protocol.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

_NOT_SUPPORTED = (
    "SASL is not supported: no client could log in with SCRAM credentials. Use a PLAINTEXT listener"
)


def handle(
    services: NodeServices, request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    users = dict.fromkeys(
        [*(each.name for each in request.deletions), *(each.name for each in request.upsertions)]
    )
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=user, error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, error_message=_NOT_SUPPORTED
            )
            for user in users
        ]
    )
