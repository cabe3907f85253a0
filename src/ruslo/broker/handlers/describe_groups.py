"""DescribeGroups v0-6: state and members of classic groups.

v3: authorized operations (KIP-430). v4: instance ids of static members. v6: a group that does not exist is an
error (KIP-1043); before, its state was Dead.
"""

from __future__ import annotations

from ruslo.broker.coordinators.runtime.fan_out import all_responses, by_partition
from ruslo.broker.handlers.allowed_resources import split_groups
from ruslo.broker.handlers.group_descriptions import add_authorized_operations
from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ruslo.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse


async def handle(
    services: Services, request: DescribeGroupsRequest, context: RequestContext
) -> DescribeGroupsResponse:
    groups = services.groups
    allowed, denied = split_groups(context, Operation.DESCRIBE, request.groups)
    answers = await all_responses(
        [
            groups.submit_to(partition, DescribeGroupsRequest(groups=group_ids), context)
            for partition, group_ids in by_partition(groups, allowed, str).items()
        ],
        DescribeGroupsResponse,
    )
    described = [group for answer in answers for group in answer.groups]
    if request.include_authorized_operations:
        add_authorized_operations(described, context)
    described += [
        DescribedGroup(group_id=each, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED) for each in denied
    ]
    return DescribeGroupsResponse(groups=described)
