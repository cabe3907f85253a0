"""Descriptions of groups of one type: ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from typing import Any

from ruslo.broker.coordinators.runtime.fan_out import all_responses, by_partition
from ruslo.broker.handlers.allowed_resources import split_groups
from ruslo.broker.handlers.services import Services
from ruslo.broker.requests.access import OPEN
from ruslo.broker.requests.context import RequestContext
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class GroupDescriptions:
    """The classes of one API; the generated ones have no common base."""

    response: Any
    group: Any
    topics_of: Callable[[Any], Iterable[str]]
    """The topics in a description."""
    without_hidden: Callable[[Any, Callable[[Iterable[str]], bool]], Any] = lambda group, _: group
    """Leaves out other parts of a description whose topics the client may not describe."""

    async def describe(self, services: Services, request: Any, context: RequestContext) -> Any:
        """Describe groups, without those that the client may not describe, or whose topics it may not."""
        groups = services.groups
        allowed, denied = split_groups(context, Operation.DESCRIBE, request.group_ids)
        answers: list[Any] = await all_responses(
            [
                groups.submit_to(partition, _part(request, group_ids), context)
                for partition, group_ids in by_partition(groups, allowed, str).items()
            ],
            self.response,
        )
        described = [self._visible(group, context) for answer in answers for group in answer.groups]
        if request.include_authorized_operations:
            add_authorized_operations(described, context)
        described += [
            self.group(group_id=each, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED) for each in denied
        ]
        return self.response(groups=described)

    def _visible(self, group: Any, context: RequestContext) -> Any:
        """The group, unless its members have topics that the client may not describe."""
        if context.access is OPEN:
            return group
        if _may_describe(context, self.topics_of(group)):
            return self.without_hidden(group, lambda topics: _may_describe(context, topics))
        return self.group(
            group_id=group.group_id,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message="The group has topics that the client is not authorized to describe",
        )


def _may_describe(context: RequestContext, topics: Iterable[str]) -> bool:
    return all(context.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic) for topic in set(topics))


def _part(request: Any, group_ids: list[str]) -> Any:
    part = copy(request)
    part.group_ids = group_ids
    return part


def add_authorized_operations(described: Iterable[Any], context: RequestContext) -> None:
    for group in described:
        if not group.error_code:
            group.authorized_operations = context.authorized_operations(ResourceType.GROUP, group.group_id)
