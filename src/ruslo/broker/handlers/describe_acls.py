"""DescribeAcls v1-3 (KIP-140): there is no authorizer, so the response is SECURITY_DISABLED, as in Kafka."""

from __future__ import annotations

from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.describe_acls_request import DescribeAclsRequest
from ruslo.protocol.messages.describe_acls_response import DescribeAclsResponse

NO_AUTHORIZER = "No authorizer is configured: ACLs cannot be listed or changed"


def handle(
    services: NodeServices, request: DescribeAclsRequest, context: RequestContext
) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
