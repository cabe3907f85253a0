"""The end offsets (high watermarks) of partitions, from their leaders on this node and on others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ruslo.protocol.messages.list_offsets_response import ListOffsetsResponse

if TYPE_CHECKING:
    from ruslo.broker.metadata.broker_links import BrokerLinks
    from ruslo.broker.metadata.loader import MetadataLoader
    from ruslo.broker.partitions.manager import PartitionManager

_LATEST = -1
_CONSUMER = -1
_NO_LEADER = -1

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class EndOffsets:
    _partitions: PartitionManager
    _metadata: MetadataLoader
    _links: BrokerLinks
    _timeout_s: float

    async def of(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The end offsets, without those that no leader reports in time."""
        found: dict[TopicPartition, int] = {}
        remote: dict[int, set[TopicPartition]] = {}
        topics = self._metadata.image.topics.by_name
        for tp in tps:
            partition = self._partitions.by_name.get(tp.topic, {}).get(tp.partition)
            topic = topics.get(tp.topic)
            if partition is not None and partition.is_leader:
                found[tp] = partition.log.high_watermark
            elif topic is not None and tp.partition < len(topic.partitions):
                remote.setdefault(topic.partitions[tp.partition].leader, set()).add(tp)
        remote.pop(_NO_LEADER, None)
        for ends in await asyncio.gather(*(self.of_leader(leader, tps) for leader, tps in remote.items())):
            found |= ends
        return found

    async def of_leader(self, leader: int, tps: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The end offsets that another broker reports in time."""
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for topic, index in tps:
            wanted = ListOffsetsPartition(partition_index=index, timestamp=_LATEST)
            topics.setdefault(topic, []).append(wanted)
        request = ListOffsetsRequest(
            replica_id=_CONSUMER,
            topics=[ListOffsetsTopic(name=name, partitions=listed) for name, listed in topics.items()],
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await self._links.request(leader, request, ListOffsetsResponse)
        except (KafkaError, TimeoutError) as error:
            logger.debug("broker %d did not respond to ListOffsets: %s", leader, error)
            return {}
        assert isinstance(response, ListOffsetsResponse)
        return {
            TopicPartition(topic.name, result.partition_index): result.offset
            for topic in response.topics
            for result in topic.partitions
            if not result.error_code
        }
