"""DeleteGroups v0-3 (KIP-229): deletes groups without members and their offsets.

v3: error messages (KIP-1331).
"""

from __future__ import annotations

from ruslo.broker.coordinators.runtime.fan_out import all_responses, by_partition
from ruslo.broker.handlers.allowed_resources import split_groups
from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ruslo.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse


async def handle(
    services: Services, request: DeleteGroupsRequest, context: RequestContext
) -> DeleteGroupsResponse:
    groups = services.groups
    allowed, denied = split_groups(context, Operation.DELETE, request.groups_names)
    answers = await all_responses(
        [
            groups.submit_to(partition, DeleteGroupsRequest(groups_names=group_ids), context)
            for partition, group_ids in by_partition(groups, allowed, str).items()
        ],
        DeleteGroupsResponse,
    )
    results = [result for answer in answers for result in answer.results]
    results += [
        DeletableGroupResult(group_id=each, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for each in denied
    ]
    return DeleteGroupsResponse(results=results)
