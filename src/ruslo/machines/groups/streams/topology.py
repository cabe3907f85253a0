"""The topology of a streams group as its members describe it: subtopologies, and the topics that they use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from ruslo.machines.groups.records import GroupRecord, consumer_record
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.streams_group_heartbeat_request import TopicInfo as RequestedTopic
from ruslo.protocol.messages.streams_group_heartbeat_request import Topology as RequestedTopology
from ruslo.protocol.messages.streams_group_topology_key import StreamsGroupTopologyKey
from ruslo.protocol.messages.streams_group_topology_value import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)

MAX_SUBTOPOLOGIES = 1_000


class StreamsTopology:
    """It does not change: a new topology is another object."""

    def __init__(self, value: StreamsGroupTopologyValue) -> None:
        self._value = value
        self.subtopologies: Mapping[str, Subtopology] = {
            each.subtopology_id: each for each in value.subtopologies
        }

    @property
    def epoch(self) -> int:
        return self._value.epoch

    @cached_property
    def subtopology_by_source(self) -> Mapping[str, str]:
        """Subtopology id by the name of a topic that it reads from."""
        return {
            name: each.subtopology_id for each in self.subtopologies.values() for name in sources_of(each)
        }

    @cached_property
    def required_topics(self) -> frozenset[str]:
        """The topics whose partitions determine the tasks."""
        names = set(self.subtopology_by_source)
        for each in self.subtopologies.values():
            names.update(topic.name for topic in each.state_changelog_topics)
        return frozenset(names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StreamsTopology):
            return NotImplemented
        return self.epoch == other.epoch and self.subtopologies == other.subtopologies

    __hash__ = None  # type: ignore[assignment]

    def to_record(self, group_id: str) -> GroupRecord:
        return consumer_record(StreamsGroupTopologyKey(group_id=group_id), self._value)


def sources_of(subtopology: Subtopology) -> list[str]:
    """The topics that it reads from, without regular expressions."""
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


def requested_topology(topology: RequestedTopology) -> StreamsTopology:
    """The topology of a request. Raises KafkaError if it is not valid by itself."""
    _check(topology)
    return StreamsTopology(
        StreamsGroupTopologyValue(
            epoch=topology.epoch,
            subtopologies=[
                Subtopology(
                    subtopology_id=each.subtopology_id,
                    source_topics=each.source_topics,
                    source_topic_regex=each.source_topic_regex,
                    state_changelog_topics=[_topic(topic) for topic in each.state_changelog_topics],
                    repartition_sink_topics=each.repartition_sink_topics,
                    repartition_source_topics=[_topic(topic) for topic in each.repartition_source_topics],
                    copartition_groups=[
                        CopartitionGroup(
                            source_topics=group.source_topics,
                            source_topic_regex=group.source_topic_regex,
                            repartition_source_topics=group.repartition_source_topics,
                        )
                        for group in each.copartition_groups
                    ],
                )
                for each in topology.subtopologies
            ],
        )
    )


def _topic(topic: RequestedTopic) -> TopicInfo:
    return TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[TopicConfig(key=config.key, value=config.value) for config in topic.topic_configs],
    )


def _check(topology: RequestedTopology) -> None:
    if topology.epoch < 0:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Topology epoch {topology.epoch} is negative. Use 0 or more."
        )
    subtopologies = topology.subtopologies
    if len(subtopologies) > MAX_SUBTOPOLOGIES:
        raise invalid_topology(
            f"The topology has {len(subtopologies)} subtopologies, more than the maximum of "
            f"{MAX_SUBTOPOLOGIES}. Divide the application."
        )
    if len({each.subtopology_id for each in subtopologies}) < len(subtopologies):
        raise invalid_topology("Two subtopologies have the same id")
    for each in subtopologies:
        name = each.subtopology_id
        if not each.source_topics and not each.repartition_source_topics:
            raise invalid_topology(f"Subtopology {name!r} has no source topics")
        _check_distinct(name, "source", each.source_topics)
        _check_distinct(name, "repartition sink", each.repartition_sink_topics)
        _check_distinct(name, "repartition source", [topic.name for topic in each.repartition_source_topics])
        _check_distinct(name, "changelog", [topic.name for topic in each.state_changelog_topics])
        for topic in each.state_changelog_topics:
            if topic.partitions != 0:
                raise invalid_topology(
                    f"The topology gives changelog topic {topic.name!r} {topic.partitions} partitions. "
                    f"Use 0: the coordinator determines the number."
                )
        if any(topic.partitions < 0 for topic in each.repartition_source_topics):
            raise invalid_topology(
                f"Subtopology {name!r} has a repartition topic with fewer than 0 partitions"
            )
        for group in each.copartition_groups:
            if not _are_indexes(group.source_topics, each.source_topics) or not _are_indexes(
                group.repartition_source_topics, each.repartition_source_topics
            ):
                raise invalid_topology(
                    f"A copartition group of subtopology {name!r} names a topic that is not there"
                )


def _check_distinct(subtopology_id: str, kind: str, names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise invalid_topology(
            f"Subtopology {subtopology_id!r} names a {kind} topic more than once. Name it once."
        )


def _are_indexes(indexes: list[int], names: list[str] | list[RequestedTopic]) -> bool:
    return all(0 <= index < len(names) for index in indexes)


def invalid_topology(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
