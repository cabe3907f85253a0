"""A topology with the topics of the cluster: the tasks of each subtopology, and internal topics to create."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ruslo.machines.assignors.streams import model
from ruslo.machines.groups.streams.partition_counts import (
    TopicProblem,
    copartition_groups,
    copartitioned_counts,
    repartition_counts,
    task_count,
)
from ruslo.machines.groups.streams.status import StatusCode
from ruslo.machines.groups.streams.topology import StreamsTopology
from ruslo.machines.groups.topics_view import TopicsView
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.streams_group_topology_value import Subtopology, TopicInfo

MAX_TASKS = 20_000
"""Tasks of a group with their standby tasks: the state of all groups is in the memory of the brokers."""
_SHOWN_TOPICS = 3


class InternalTopic(NamedTuple):
    name: str
    partition_count: int
    replication_factor: int
    """0: the cluster's default."""
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    task_count: int
    source_topics: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] = field(default_factory=dict)
    """By id, sorted; empty if the topics do not fit the topology."""
    missing: tuple[InternalTopic, ...] = ()
    """Internal topics that have to be created."""
    problem: TopicProblem | None = None

    @property
    def is_ready(self) -> bool:
        """Whether all topics exist, so that tasks can be assigned."""
        return self.problem is None

    @property
    def task_count(self) -> int:
        return sum(each.task_count for each in self.subtopologies.values())

    def check_size(self, num_standby_replicas: int) -> None:
        """Raise KafkaError if a group with so many standby replicas had more than MAX_TASKS."""
        tasks = self.task_count * (1 + num_standby_replicas)
        if tasks > MAX_TASKS:
            raise KafkaError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                f"The topology has {tasks} tasks with {num_standby_replicas} standby replicas "
                f"(streams.num.standby.replicas), more than the maximum of {MAX_TASKS}. Use fewer standby "
                f"replicas or partitions, or divide the application.",
            )

    def has_task(self, task: model.TaskId) -> bool:
        subtopology = self.subtopologies.get(task.subtopology_id)
        return subtopology is not None and 0 <= task.partition < subtopology.task_count

    def for_assignor(self) -> model.Topology:
        return model.Topology(
            {
                subtopology_id: model.Subtopology(each.task_count, bool(each.changelogs))
                for subtopology_id, each in self.subtopologies.items()
            }
        )


def configure(topology: StreamsTopology, view: TopicsView) -> ConfiguredTopology:
    """Raises KafkaError if the topology is invalid with any topics."""
    try:
        _check_sources(topology, view)
        counts = _internal_counts(topology, view)
        subtopologies = {
            subtopology_id: _configured(topology.subtopologies[subtopology_id], counts, view)
            for subtopology_id in sorted(topology.subtopologies)
        }
        missing = _missing(subtopologies.values(), view)
    except TopicProblem as error:
        return ConfiguredTopology(topology.epoch, problem=error)
    problem: TopicProblem | None = None
    if missing:
        detail = f"Internal topics are missing: {_shown([topic.name for topic in missing])}"
        problem = TopicProblem(StatusCode.MISSING_INTERNAL_TOPICS, detail)
    return ConfiguredTopology(topology.epoch, subtopologies, missing, problem)


def _check_sources(topology: StreamsTopology, view: TopicsView) -> None:
    missing = sorted(
        {
            name
            for each in topology.subtopologies.values()
            for name in each.source_topics
            if view.by_name(name) is None
        }
    )
    if missing:
        raise TopicProblem(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {_shown(missing)} are missing.")


def _internal_counts(topology: StreamsTopology, view: TopicsView) -> dict[str, int]:
    """The numbers of partitions that internal topics should have."""
    subtopologies = topology.subtopologies.values()
    counts: dict[str, int] = {}

    def count_of(name: str) -> int | None:
        topic = view.by_name(name)
        return counts.get(name) if topic is None else topic.partition_count

    counts.update(repartition_counts(subtopologies, count_of))
    repartition = [topic for each in subtopologies for topic in each.repartition_source_topics]
    fixed = {topic.name for topic in repartition if topic.partitions != 0}
    flexible = {topic.name for topic in repartition if topic.partitions == 0}
    for each in subtopologies:
        for names in copartition_groups(each):
            counts.update(copartitioned_counts(names, fixed, flexible, count_of))
    for each in subtopologies:
        number = task_count(each, count_of)
        counts.update((topic.name, number) for topic in each.state_changelog_topics)
    return counts


def _configured(
    subtopology: Subtopology, counts: Mapping[str, int], view: TopicsView
) -> ConfiguredSubtopology:
    def count_of(name: str) -> int | None:
        topic = view.by_name(name)
        return counts.get(name) if topic is None else topic.partition_count

    return ConfiguredSubtopology(
        task_count=task_count(subtopology, count_of),
        source_topics=tuple(sorted(set(subtopology.source_topics))),
        repartition_sources=_internal_topics(subtopology.repartition_source_topics, counts),
        repartition_sinks=tuple(sorted(set(subtopology.repartition_sink_topics))),
        changelogs=_internal_topics(subtopology.state_changelog_topics, counts),
    )


def _internal_topics(topics: Iterable[TopicInfo], counts: Mapping[str, int]) -> tuple[InternalTopic, ...]:
    by_name = {
        topic.name: InternalTopic(
            topic.name,
            topic.partitions or counts[topic.name],
            topic.replication_factor,
            {config.key: config.value for config in topic.topic_configs},
        )
        for topic in topics
    }
    return tuple(by_name[name] for name in sorted(by_name))


def _missing(subtopologies: Iterable[ConfiguredSubtopology], view: TopicsView) -> tuple[InternalTopic, ...]:
    missing: dict[str, InternalTopic] = {}
    for each in subtopologies:
        for topic in (*each.repartition_sources, *each.changelogs):
            existing = view.by_name(topic.name)
            if existing is None:
                missing[topic.name] = topic
            elif existing.partition_count != topic.partition_count:
                raise TopicProblem(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Topic {topic.name} has {existing.partition_count} partitions, but the topology needs "
                    f"{topic.partition_count}",
                )
    return tuple(missing[name] for name in sorted(missing))


def _shown(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN_TOPICS])
    more = len(names) - _SHOWN_TOPICS
    return f"{shown} and {more} more" if more > 0 else shown
