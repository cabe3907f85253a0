"""DescribeDelegationToken v1-3 (KIP-48): the tokens that the client owns, may renew or may describe.

v3: the requester of a token (KIP-373). The response contains the HMACs of the tokens, as in Kafka: with one a
client can log in, so it is shown only to principals that may use or describe the token.
"""

from __future__ import annotations

from collections.abc import Collection

from ruslo.broker.handlers.create_delegation_token import REQUESTER_FROM, may_use_tokens
from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.controller.delegation_tokens import is_expired, token_hmac
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.principals import Principal, parse_principal
from ruslo.model.secret import Secret
from ruslo.protocol.messages.delegation_token_record import DelegationTokenRecord
from ruslo.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from ruslo.protocol.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)


def handle(
    services: NodeServices, request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    if not may_use_tokens(services, context):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    secret = services.config.secret("delegation.token.secret.key")
    if secret is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = {Principal(each.principal_type, each.principal_name) for each in request.owners}
    now_ms = services.clock.now_ms()
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(token, secret, context.api_version)
            for token in services.metadata.image.security.tokens.values()
            if not is_expired(token, now_ms) and _is_visible(token, owners, context)
        ]
    )


def _is_visible(
    token: DelegationTokenRecord, owners: Collection[Principal] | None, context: RequestContext
) -> bool:
    owner = parse_principal(token.owner)
    if owners is not None and owner not in owners:
        return False
    principal = context.principal.base
    return (
        principal in (owner, parse_principal(token.requester), *map(parse_principal, token.renewers))
        or context.allows(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or context.allows(Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
    )


def _described(token: DelegationTokenRecord, secret: Secret, version: int) -> DescribedDelegationToken:
    owner = parse_principal(token.owner)
    requester = parse_principal(token.requester) if version >= REQUESTER_FROM else Principal("", "")
    return DescribedDelegationToken(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=token_hmac(secret, token.token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=each.type, principal_name=each.name)
            for each in map(parse_principal, token.renewers)
        ],
    )
