"""StreamsGroupDescribe v0-1 (KIP-1071): state, epochs, topology, members and tasks of streams groups.

v1: the topology description (KIP-1331) and the assignor (KIP-1357).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy

from ruslo.broker.handlers.group_descriptions import GroupDescriptions
from ruslo.machines.groups.streams.describe import DescriptionStatus
from ruslo.protocol.messages.streams_group_describe_response import (
    DescribedGroup,
    StreamsGroupDescribeResponse,
    TopologyDescription,
)


def _topics_of(group: DescribedGroup) -> Iterator[str]:
    if group.topology is None:
        return
    for each in group.topology.subtopologies or ():
        yield from each.source_topics
        yield from each.repartition_sink_topics
        yield from (topic.name for topic in each.repartition_source_topics)
        yield from (topic.name for topic in each.state_changelog_topics)


def _described_topics(description: TopologyDescription) -> Iterator[str]:
    nodes = [node for each in description.subtopologies for node in each.nodes]
    for store in description.global_stores:
        nodes += (store.source, store.processor)
    for node in nodes:
        yield from node.source_topics
        if node.sink_topic is not None:
            yield node.sink_topic


def _without_hidden(group: DescribedGroup, may_describe: Callable[[Iterable[str]], bool]) -> DescribedGroup:
    """The group, without a topology description that names topics which the client may not describe.

    A member writes the description, so it may name topics that are not in the group's topology.
    """
    description = group.topology_description
    if description is None:
        return group
    used = set(_topics_of(group))
    # Applications name their internal topics without their id, which the topics begin with.
    if may_describe(
        each for each in _described_topics(description) if f"{group.group_id}-{each}" not in used
    ):
        return group
    visible = copy(group)
    visible.topology_description = None
    visible.topology_description_status = DescriptionStatus.ERROR
    return visible


handle = GroupDescriptions(StreamsGroupDescribeResponse, DescribedGroup, _topics_of, _without_hidden).describe
