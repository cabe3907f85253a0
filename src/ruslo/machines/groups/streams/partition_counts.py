"""The numbers of partitions of internal topics, which follow from those of the source topics.

| topic                              | partitions                                                          |
|------------------------------------|---------------------------------------------------------------------|
| repartition topic, number given    | that number                                                         |
| repartition topic, no number given | the maximum of the source topics of a subtopology that writes to it |
| copartitioned repartition topics   | those of the source topics in the copartition group                 |
| changelog topic                    | the maximum of the source topics of its subtopology                 |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import heappop, heappush
from typing import TypeAlias

from ruslo.machines.groups.streams.status import StatusCode
from ruslo.machines.groups.streams.topology import invalid_topology, sources_of
from ruslo.protocol.messages.streams_group_topology_value import Subtopology

CountOf: TypeAlias = Callable[[str], int | None]
"""The number of partitions of a topic; None if it does not exist and is not determined yet."""


class TopicProblem(Exception):
    """The topics of the cluster do not fit the topology; the group waits until they do."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


def repartition_counts(subtopologies: Collection[Subtopology], count_of: CountOf) -> dict[str, int]:
    """Raises KafkaError if the topology does not determine all numbers."""
    counts = {
        topic.name: topic.partitions
        for each in subtopologies
        for topic in each.repartition_source_topics
        if topic.partitions != 0
    }
    writers = [
        each for each in subtopologies if any(sink not in counts for sink in each.repartition_sink_topics)
    ]
    due: list[tuple[int, int]] = []
    """Round and index of writers that have a source whose number is known: each is visited once."""
    waiting: dict[str, list[int]] = {}
    """The indexes of the other writers, by source."""
    for index, each in enumerate(writers):
        if _max_source_count(each, counts, count_of) is not None:
            due.append((0, index))
            continue
        for topic in each.repartition_source_topics:
            waiting.setdefault(topic.name, []).append(index)
    found = {index for _, index in due}
    while due:
        turn, index = heappop(due)
        count = _max_source_count(writers[index], counts, count_of)
        assert count is not None
        for sink in writers[index].repartition_sink_topics:
            if sink in counts:
                continue
            counts[sink] = count
            for reader in waiting.pop(sink, ()):
                if reader not in found:
                    found.add(reader)
                    heappush(due, (turn + (reader < index), reader))
    if len(found) < len(writers):
        raise invalid_topology(
            "The numbers of partitions of some repartition topics depend on each other. Remove the loop."
        )
    for each in subtopologies:
        for topic in each.repartition_source_topics:
            if topic.name not in counts:
                raise invalid_topology(f"No subtopology writes to the repartition topic {topic.name!r}")
    return counts


def _max_source_count(subtopology: Subtopology, counts: Mapping[str, int], count_of: CountOf) -> int | None:
    known = [counts.get(topic.name) for topic in subtopology.repartition_source_topics]
    known += [count_of(name) for name in subtopology.source_topics]
    return max((count for count in known if count is not None), default=None)


def copartitioned_counts(
    topics: Collection[str], fixed: Collection[str], flexible: Collection[str], count_of: CountOf
) -> dict[str, int]:
    """The numbers of the repartition topics in a copartition group.

    ``fixed`` and ``flexible``: the topology's repartition topics with and without a given number. Raises
    TopicProblem if the topics of the group cannot have the same number.
    """
    repartition = sorted(name for name in topics if name in fixed or name in flexible)
    external = sorted(name for name in topics if name not in fixed and name not in flexible)
    given = [name for name in repartition if name in fixed]
    deciding = external or given or repartition
    numbers = {name: _known(name, count_of) for name in deciding}
    if not numbers:
        return {}
    if deciding is not repartition and len(set(numbers.values())) > 1:
        raise TopicProblem(
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            f"These topics must have the same number of partitions: {_listed(numbers)}",
        )
    number = max(numbers.values())
    for name in given:
        if _known(name, count_of) != number:
            raise TopicProblem(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Repartition topic {name} has {_known(name, count_of)} partitions, but the topics of its "
                f"copartition group have {number}",
            )
    return dict.fromkeys(repartition, number)


def task_count(subtopology: Subtopology, count_of: CountOf) -> int:
    """A task for each partition of the source topic with the most partitions; also the changelogs' number."""
    return max(_known(name, count_of) for name in sources_of(subtopology))


def copartition_groups(subtopology: Subtopology) -> Iterable[set[str]]:
    """The names of the topics in each copartition group."""
    for group in subtopology.copartition_groups:
        names = {subtopology.source_topics[index] for index in group.source_topics}
        names.update(
            subtopology.repartition_source_topics[index].name for index in group.repartition_source_topics
        )
        yield names


def _known(name: str, count_of: CountOf) -> int:
    count = count_of(name)
    if count is None:
        raise invalid_topology(f"The topology does not determine the number of partitions of topic {name!r}")
    return count


def _listed(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={number}" for name, number in sorted(numbers.items()))
