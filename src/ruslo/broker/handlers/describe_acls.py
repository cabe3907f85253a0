"""DescribeAcls v1-3 (KIP-140): the ACLs that match a filter. SECURITY_DISABLED without an authorizer."""

from __future__ import annotations

from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.security.authorization import Authorization
from ruslo.model.acls import AclFilter
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.describe_acls_request import DescribeAclsRequest
from ruslo.protocol.messages.describe_acls_response import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def handle(
    services: NodeServices, request: DescribeAclsRequest, context: RequestContext
) -> DescribeAclsResponse:
    authorization = require_authorizer(services)
    wanted = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    if wanted.is_unknown:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "The filter has a value that this node does not know. Use ANY (1)"
        )
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in authorization.acls(wanted):
        key = (acl.resource_type, acl.resource_name, acl.pattern_type)
        if key not in resources:
            resources[key] = DescribeAclsResource(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
            )
        resources[key].acls.append(
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
        )
    return DescribeAclsResponse(error_message=None, resources=list(resources.values()))


def require_authorizer(services: NodeServices) -> Authorization:
    if services.authorization is None:
        raise KafkaError(
            ErrorCode.SECURITY_DISABLED,
            "No authorizer is configured: ACLs can be neither listed nor changed. Set authorizer.class.name",
        )
    return services.authorization
