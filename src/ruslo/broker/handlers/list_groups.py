"""ListGroups v0-5: the groups that this node coordinates. v4: by state (KIP-518). v5: by type (KIP-848)."""

from __future__ import annotations

from ruslo.broker.coordinators.runtime.fan_out import all_responses
from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.protocol.messages.list_groups_request import ListGroupsRequest
from ruslo.protocol.messages.list_groups_response import ListGroupsResponse


async def handle(
    services: Services, request: ListGroupsRequest, context: RequestContext
) -> ListGroupsResponse:
    groups = services.groups
    answers = await all_responses(
        [groups.submit_to(partition, request, context) for partition in groups.partitions()],
        ListGroupsResponse,
    )
    for answer in answers:
        if answer.error_code:
            # A partial list would look complete.
            return ListGroupsResponse(error_code=answer.error_code)
    groups_listed = [group for answer in answers for group in answer.groups]
    if not context.allows(Operation.DESCRIBE, ResourceType.CLUSTER, audited=False):
        groups_listed = [
            each
            for each in groups_listed
            if context.allows(Operation.DESCRIBE, ResourceType.GROUP, each.group_id, audited=False)
        ]
    return ListGroupsResponse(groups=groups_listed)
