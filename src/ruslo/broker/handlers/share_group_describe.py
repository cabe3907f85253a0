"""ShareGroupDescribe v1 (KIP-932): state, epochs, members and assignments of share groups."""

from __future__ import annotations

from collections.abc import Iterator

from ruslo.broker.handlers.group_descriptions import GroupDescriptions
from ruslo.protocol.messages.share_group_describe_response import DescribedGroup, ShareGroupDescribeResponse


def _topics_of(group: DescribedGroup) -> Iterator[str]:
    return (each.topic_name for member in group.members for each in member.assignment.topic_partitions)


handle = GroupDescriptions(ShareGroupDescribeResponse, DescribedGroup, _topics_of).describe
