"""CreateDelegationToken v1-3 (KIP-48): a token with which other processes authenticate as its owner.

v3: for another owner (KIP-373), which needs CREATE_TOKENS on that user. A broker refuses a client that is not
authenticated, or only by a token, and forwards the others to the controller.
"""

from __future__ import annotations

from ruslo.broker.handlers import controller_changes
from ruslo.broker.handlers.services import ControllerServices, NodeServices, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.principals import ANONYMOUS, USER, Principal
from ruslo.protocol.message import Message
from ruslo.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from ruslo.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse

NO_TIMESTAMP = -1
REQUESTER_FROM = 3
"""The version from which responses name the requester of a token, who may be another than its owner."""


async def handle(
    services: ControllerServices, request: CreateDelegationTokenRequest, context: RequestContext
) -> Message:
    owner = context.principal.base
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or USER, request.owner_principal_name)
    code = ErrorCode.NONE
    if not context.forwarded and not may_use_tokens(services, context):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    elif owner != context.principal.base and not context.allows(
        Operation.CREATE_TOKENS, ResourceType.USER, str(owner)
    ):
        code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    if code is ErrorCode.NONE:
        response = await controller_changes.handle(services, request, context)
        if isinstance(response, CreateDelegationTokenResponse) and context.api_version < REQUESTER_FROM:
            response.token_requester_principal_type = response.token_requester_principal_name = ""
        return response
    requester = context.principal if context.api_version >= REQUESTER_FROM else Principal("", "")
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=NO_TIMESTAMP,
        expiry_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=NO_TIMESTAMP,
    )


def may_use_tokens(services: NodeServices, context: RequestContext) -> bool:
    """Whether the client is authenticated, by more than a token: a token must not create further ones."""
    protocol = services.config.security_protocols.get(context.listener_name, "PLAINTEXT")
    if context.principal.token_authenticated or protocol == "PLAINTEXT":
        return False
    return protocol != "SSL" or context.principal != ANONYMOUS


async def renew_or_expire(services: ControllerServices, request: Message, context: RequestContext) -> Message:
    """The controller's handler of RenewDelegationToken and ExpireDelegationToken."""
    if context.forwarded or may_use_tokens(services, context):
        return await controller_changes.handle(services, request, context)
    raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


async def forward(services: Services, request: Message, context: RequestContext) -> Message:
    """What a broker does with the requests that create, renew or expire a token."""
    if may_use_tokens(services, context):
        return await services.gateway.forward(request, context)
    raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
