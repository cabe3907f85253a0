"""StreamsGroupDescribe v0-1 (KIP-1071): state, epochs, topology, members and tasks of streams groups.

v1: the topology description (KIP-1331) and the assignor (KIP-1357).
"""

from __future__ import annotations

from collections.abc import Iterator

from ruslo.broker.handlers.group_descriptions import GroupDescriptions
from ruslo.protocol.messages.streams_group_describe_response import (
    DescribedGroup,
    StreamsGroupDescribeResponse,
)


def _topics_of(group: DescribedGroup) -> Iterator[str]:
    if group.topology is None:
        return
    for each in group.topology.subtopologies or ():
        yield from each.source_topics
        yield from each.repartition_sink_topics
        yield from (topic.name for topic in each.repartition_source_topics)
        yield from (topic.name for topic in each.state_changelog_topics)


handle = GroupDescriptions(StreamsGroupDescribeResponse, DescribedGroup, _topics_of).describe
