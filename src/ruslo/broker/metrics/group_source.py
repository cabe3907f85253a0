"""Families of the groups that this broker coordinates: what they have committed, and how far they are behind.

Where a partition ends is known here if this broker has a replica of it; of the others their leaders are asked
once for each scrape, all at a time and not for long. Who does not answer leaves a gap, not a wrong figure.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ruslo.broker.metrics import catalog
from ruslo.broker.metrics.exposition import Family, Sample, labels_text
from ruslo.broker.scheduling.scheduler import Priority, Scheduler, Steps
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ruslo.protocol.messages.list_offsets_response import ListOffsetsResponse

if TYPE_CHECKING:
    from ruslo.broker.coordinators.groups.coordinator import GroupCoordinator
    from ruslo.broker.metadata.broker_links import BrokerLinks
    from ruslo.broker.metadata.loader import MetadataLoader
    from ruslo.broker.partitions.manager import PartitionManager
    from ruslo.machines.groups.state import ShardState

ASK_S = 1.0
_LATEST = -1
_CONSUMER = -1
_NOBODY = -1

logger = logging.getLogger(__name__)

Committed = tuple[str, TopicPartition, int]
"""Group, place, offset."""


def _committed(state: ShardState) -> list[Committed]:
    """A copy, shard by shard: what is being read must not change between two turns of the loop."""
    return [
        (group_id, TopicPartition(topic, index), committed.offset)
        for group_id in state.offsets.group_ids()
        for topic, offsets in state.offsets.of_group(group_id).items()
        for index, committed in offsets.items()
    ]


def _labels(group_id: str, place: TopicPartition) -> str:
    return labels_text({"consumergroup": group_id, "topic": place.topic, "partition": place.partition})


class GroupSource:
    def __init__(
        self,
        groups: GroupCoordinator,
        partitions: PartitionManager,
        metadata: MetadataLoader,
        links: BrokerLinks,
        scheduler: Scheduler,
    ) -> None:
        self._groups = groups
        self._partitions = partitions
        self._metadata = metadata
        self._links = links
        self._scheduler = scheduler
        self._ends_elsewhere: dict[TopicPartition, int] = {}

    async def refresh(self) -> None:
        """Before a scrape: request the end offsets of partitions without a replica here."""
        away = await self._scheduler.run(
            self._partitions_elsewhere(), priority=Priority.BACKGROUND, name="partitions with a lag"
        )
        answers = await asyncio.gather(*(self._ask(leader, places) for leader, places in away.items()))
        self._ends_elsewhere = {place: end for ends in answers for place, end in ends.items()}

    def _partitions_elsewhere(self) -> Steps[dict[int, set[TopicPartition]]]:
        """Return the partitions that groups have committed offsets of, by their leader."""
        away: dict[int, set[TopicPartition]] = {}
        topics = self._metadata.image.topics.by_name
        for state in self._groups.states():
            for _, place, _ in _committed(state):
                topic = topics.get(place.topic)
                if topic is None or self._end_here(place) is not None:
                    continue
                if place.partition < len(topic.partitions):
                    away.setdefault(topic.partitions[place.partition].leader, set()).add(place)
            yield
        away.pop(_NOBODY, None)
        return away

    def families(self) -> Iterator[Family]:
        states = self._groups.states()
        yield Family(catalog.GROUP_OFFSET, self._offsets(states))
        yield Family(catalog.GROUP_LAG, self._lags(states))
        yield Family(catalog.GROUP_MEMBERS, self._members(states))

    def _offsets(self, states: Sequence[ShardState]) -> Iterator[Sample]:
        for state in states:
            for group_id, place, offset in _committed(state):
                yield Sample(_labels(group_id, place), offset)

    def _lags(self, states: Sequence[ShardState]) -> Iterator[Sample]:
        for state in states:
            for group_id, place, offset in _committed(state):
                end = self._end_of(place)
                if end is not None:
                    yield Sample(_labels(group_id, place), max(end - offset, 0))

    def _members(self, states: Sequence[ShardState]) -> Iterator[Sample]:
        for state in states:
            for group in list(state.groups.values()):
                yield Sample(labels_text({"consumergroup": group.group_id}), group.member_count)

    def _end_of(self, place: TopicPartition) -> int | None:
        here = self._end_here(place)
        return here if here is not None else self._ends_elsewhere.get(place)

    def _end_here(self, place: TopicPartition) -> int | None:
        partition = self._partitions.by_name.get(place.topic, {}).get(place.partition)
        return None if partition is None else partition.log.high_watermark

    async def _ask(self, leader: int, places: set[TopicPartition]) -> Mapping[TopicPartition, int]:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for topic, index in places:
            asked = ListOffsetsPartition(partition_index=index, timestamp=_LATEST)
            topics.setdefault(topic, []).append(asked)
        request = ListOffsetsRequest(
            replica_id=_CONSUMER,
            topics=[ListOffsetsTopic(name=name, partitions=listed) for name, listed in topics.items()],
        )
        try:
            async with asyncio.timeout(ASK_S):
                response = await self._links.request(leader, request, ListOffsetsResponse)
        except (KafkaError, TimeoutError) as error:
            logger.debug("broker %d does not say where its partitions end: %s", leader, error)
            return {}
        assert isinstance(response, ListOffsetsResponse)
        return {
            TopicPartition(topic.name, answer.partition_index): answer.offset
            for topic in response.topics
            for answer in topic.partitions
            if not answer.error_code
        }
