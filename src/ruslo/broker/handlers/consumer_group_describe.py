"""ConsumerGroupDescribe v0-1 (KIP-848): state, epochs, members and assignments of consumer groups.

v1: whether a member uses the classic or the new protocol (KIP-1099).
"""

from __future__ import annotations

from ruslo.broker.coordinators.runtime.fan_out import all_responses, by_partition
from ruslo.broker.handlers.allowed_resources import split_groups
from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.access import OPEN
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ruslo.protocol.messages.consumer_group_describe_response import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


async def handle(
    services: Services, request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    groups = services.groups
    allowed, denied = split_groups(context, Operation.DESCRIBE, request.group_ids)
    answers = await all_responses(
        [
            groups.submit_to(partition, ConsumerGroupDescribeRequest(group_ids=group_ids), context)
            for partition, group_ids in by_partition(groups, allowed, str).items()
        ],
        ConsumerGroupDescribeResponse,
    )
    described = [_visible(group, context) for answer in answers for group in answer.groups]
    if request.include_authorized_operations:
        for group in described:
            if not group.error_code:
                group.authorized_operations = context.authorized_operations(
                    ResourceType.GROUP, group.group_id
                )
    described += [
        DescribedGroup(group_id=each, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED) for each in denied
    ]
    return ConsumerGroupDescribeResponse(groups=described)


def _visible(group: DescribedGroup, context: RequestContext) -> DescribedGroup:
    """The group, unless its members have topics that the client may not describe."""
    if context.access is OPEN:
        return group
    topics = {
        each.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for each in assignment.topic_partitions
    }
    if all(context.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic) for topic in topics):
        return group
    return DescribedGroup(
        group_id=group.group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="The group has topics that the client is not authorized to describe",
    )
