"""CreateAcls v1-3 (KIP-140): there is no authorizer, so each creation is SECURITY_DISABLED, as in Kafka."""

from __future__ import annotations

from ruslo.broker.handlers.describe_acls import NO_AUTHORIZER
from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.create_acls_request import CreateAclsRequest
from ruslo.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse


def handle(services: NodeServices, request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    result = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return CreateAclsResponse(results=[result] * len(request.creations))
