"""Families of the groups that this broker coordinates: committed offsets, lag and members.

The end offset of a partition is known if this broker has a replica of it. The leaders of the others are
asked once for each scrape, all at the same time, with a short timeout. Without a response there is no sample.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ruslo.broker.metrics import catalog
from ruslo.broker.metrics.exposition import Family, Sample, labels_text
from ruslo.broker.partitions.end_offsets import EndOffsets
from ruslo.broker.scheduling.scheduler import Priority, Scheduler, Steps
from ruslo.model.topics import TopicPartition

if TYPE_CHECKING:
    from ruslo.broker.coordinators.groups.coordinator import GroupCoordinator
    from ruslo.broker.metadata.broker_links import BrokerLinks
    from ruslo.broker.metadata.loader import MetadataLoader
    from ruslo.broker.partitions.manager import PartitionManager
    from ruslo.machines.groups.state import ShardState

REQUEST_TIMEOUT_S = 1.0
_NO_LEADER = -1

Committed = tuple[str, TopicPartition, int]
"""Group, topic partition, offset."""


def _committed(state: ShardState) -> list[Committed]:
    """Copy the offsets of a shard: they must not change between two steps."""
    return [
        (group_id, TopicPartition(topic, index), committed.offset)
        for group_id in state.offsets.group_ids()
        for topic, offsets in state.offsets.of_group(group_id).items()
        for index, committed in offsets.items()
    ]


def _labels(group_id: str, tp: TopicPartition) -> str:
    return labels_text({"consumergroup": group_id, "topic": tp.topic, "partition": tp.partition})


@dataclass(eq=False)
class GroupSource:
    _groups: GroupCoordinator
    _partitions: PartitionManager
    _metadata: MetadataLoader
    _links: BrokerLinks
    _scheduler: Scheduler
    _remote_ends: dict[TopicPartition, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._ends = EndOffsets(self._partitions, self._metadata, self._links, REQUEST_TIMEOUT_S)

    async def refresh(self) -> None:
        """Before a scrape: request the end offsets of partitions without a replica here."""
        remote = await self._scheduler.run(
            self._remote_partitions(), priority=Priority.BACKGROUND, name="partitions with a lag"
        )
        responses = await asyncio.gather(
            *(self._ends.of_leader(leader, partitions) for leader, partitions in remote.items())
        )
        self._remote_ends = {tp: end for ends in responses for tp, end in ends.items()}

    def _remote_partitions(self) -> Steps[dict[int, set[TopicPartition]]]:
        """Return the partitions that groups have committed offsets of, by their leader."""
        remote: dict[int, set[TopicPartition]] = {}
        topics = self._metadata.image.topics.by_name
        for state in self._groups.states():
            for _, tp, _ in _committed(state):
                topic = topics.get(tp.topic)
                if topic is None or self._local_end(tp) is not None:
                    continue
                if tp.partition < len(topic.partitions):
                    remote.setdefault(topic.partitions[tp.partition].leader, set()).add(tp)
            yield
        remote.pop(_NO_LEADER, None)
        return remote

    def families(self) -> Iterator[Family]:
        states = self._groups.states()
        yield Family(catalog.GROUP_OFFSET, self._offsets(states))
        yield Family(catalog.GROUP_LAG, self._lags(states))
        yield Family(catalog.GROUP_MEMBERS, self._members(states))
        yield Family(catalog.GROUPS_BY_STATE, self._counts(states))

    def _offsets(self, states: Sequence[ShardState]) -> Iterator[Sample]:
        for state in states:
            for group_id, tp, offset in _committed(state):
                yield Sample(_labels(group_id, tp), offset)

    def _lags(self, states: Sequence[ShardState]) -> Iterator[Sample]:
        for state in states:
            for group_id, tp, offset in _committed(state):
                end = self._end_of(tp)
                if end is not None:
                    yield Sample(_labels(group_id, tp), max(end - offset, 0))

    def _members(self, states: Sequence[ShardState]) -> Iterator[Sample]:
        for state in states:
            for group in list(state.groups.values()):
                yield Sample(labels_text({"consumergroup": group.group_id}), group.member_count)

    def _counts(self, states: Sequence[ShardState]) -> Iterator[Sample]:
        counts = Counter(
            (group.kind, group.state_name) for state in states for group in state.groups.values()
        )
        for (kind, name), count in sorted(counts.items()):
            yield Sample(labels_text({"protocol": kind, "state": name}), count)

    def _end_of(self, tp: TopicPartition) -> int | None:
        local = self._local_end(tp)
        return local if local is not None else self._remote_ends.get(tp)

    def _local_end(self, tp: TopicPartition) -> int | None:
        partition = self._partitions.by_name.get(tp.topic, {}).get(tp.partition)
        return None if partition is None else partition.log.high_watermark
