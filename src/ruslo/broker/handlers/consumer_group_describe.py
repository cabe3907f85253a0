"""ConsumerGroupDescribe v0-1 (KIP-848): state, epochs, members and assignments of consumer groups.

v1: whether a member uses the classic or the new protocol (KIP-1099).
"""

from __future__ import annotations

from collections.abc import Iterator

from ruslo.broker.handlers.group_descriptions import GroupDescriptions
from ruslo.protocol.messages.consumer_group_describe_response import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def _topics_of(group: DescribedGroup) -> Iterator[str]:
    return (
        each.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for each in assignment.topic_partitions
    )


handle = GroupDescriptions(ConsumerGroupDescribeResponse, DescribedGroup, _topics_of).describe
