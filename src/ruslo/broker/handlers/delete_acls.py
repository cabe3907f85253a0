"""DeleteAcls v1-3 (KIP-140): there is no authorizer, so each filter is SECURITY_DISABLED, as in Kafka."""

from __future__ import annotations

from ruslo.broker.handlers.describe_acls import NO_AUTHORIZER
from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.delete_acls_request import DeleteAclsRequest
from ruslo.protocol.messages.delete_acls_response import DeleteAclsFilterResult, DeleteAclsResponse


def handle(services: NodeServices, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    result = DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return DeleteAclsResponse(filter_results=[result] * len(request.filters))
