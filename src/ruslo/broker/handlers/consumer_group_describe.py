"""ConsumerGroupDescribe v0-1 (KIP-848): state, epochs, members and assignments of consumer groups.

v1: whether a member uses the classic or the new protocol (KIP-1099).
"""

from __future__ import annotations

from ruslo.broker.coordinators.runtime.fan_out import all_responses, by_partition
from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.authorized_operations import GROUP_OPERATIONS
from ruslo.broker.requests.context import RequestContext
from ruslo.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ruslo.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse


async def handle(
    services: Services, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    groups = services.groups
    answers = await all_responses(
        [
            groups.submit_to(partition, ConsumerGroupDescribeRequest(group_ids=group_ids), context)
            for partition, group_ids in by_partition(groups, request.group_ids, str).items()
        ],
        ConsumerGroupDescribeResponse,
    )
    described = [group for answer in answers for group in answer.groups]
    if request.include_authorized_operations:
        for group in described:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=described)
