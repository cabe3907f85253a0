"""How far a group is behind: in records, and in seconds.

In records: offsets between the committed one and the end of the partition, as Kafka's own tool counts. In
seconds: the time of the newest record minus the time of the record at the committed offset, that is, how much
of the topic's history is still unread. Unlike the age of a commit it does not grow while nobody writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from ruslo.client.admin.offsets import Offsets, Spec
from ruslo.client.admin.record_times import RecordTimes
from ruslo.client.wire.cluster import Cluster
from ruslo.model.errors import KafkaError, ProtocolError
from ruslo.model.topics import TopicPartition

NOT_COMMITTED = -1
_PARTITIONS_AT_ONCE = 16


class PartitionLag(NamedTuple):
    end_offset: int | None
    """None when the partition has no leader or does not exist any more."""
    records: int | None
    seconds: float | None
    """None when it is not known: no commit, records without a time, or no right to read them."""


class GroupLags:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._offsets = Offsets(cluster)
        self._times = RecordTimes(cluster)

    async def measure(
        self, committed: Mapping[TopicPartition, int], *, in_seconds: bool = True
    ) -> dict[TopicPartition, PartitionLag]:
        """``committed`` is NOT_COMMITTED for partitions where only the end is of interest."""
        ends = await self.ends(committed)
        behind = [
            partition
            for partition, end in ends.items()
            if in_seconds and NOT_COMMITTED < committed[partition] < end
        ]
        starts = await self._offsets.find(dict.fromkeys(behind, Spec.EARLIEST))
        turns = asyncio.Semaphore(_PARTITIONS_AT_ONCE)

        async def seconds(partition: TopicPartition) -> float | None:
            async with turns:
                # What retention has taken cannot be late any more.
                first = max(committed[partition], starts[partition].offset)
                return await self._seconds(partition, first, ends[partition])

        late = dict(zip(behind, await asyncio.gather(*map(seconds, behind)), strict=True))
        lags = {}
        for partition, offset in committed.items():
            end = ends.get(partition)
            if end is None or offset == NOT_COMMITTED:
                lags[partition] = PartitionLag(end, None, None)
            else:
                caught_up = 0.0 if in_seconds and offset >= end else None
                lags[partition] = PartitionLag(end, max(0, end - offset), late.get(partition, caught_up))
        return lags

    async def ends(self, partitions: Mapping[TopicPartition, object]) -> dict[TopicPartition, int]:
        """The next offset of each partition that exists and has a leader."""
        metadata = await self._cluster.metadata({partition.topic for partition in partitions})
        led = []
        for partition in partitions:
            topic = metadata.topics.get(partition.topic)
            found = None if topic is None else topic.partition(partition.partition)
            if found is not None and found.leader_id >= 0:
                led.append(partition)
        listed = await self._offsets.find(dict.fromkeys(led, Spec.LATEST))
        return {partition: found.offset for partition, found in listed.items()}

    async def _seconds(self, partition: TopicPartition, first: int, end: int) -> float | None:
        try:
            oldest = await self._times.first_from(partition, first, end)
            if oldest is None:
                return 0.0  # nothing but markers and holes: there is no record to be late with
            newest = await self._times.last_before(partition, end, first)
        except (KafkaError, ProtocolError):
            # Offsets can be seen without the right to read records, and retention may have been quicker; a
            # number that cannot be had must not hide those that can.
            return None
        if newest is None or oldest.timestamp_ms is None or newest.timestamp_ms is None:
            return None
        # Producers set the times, so a newer record may well have an older one.
        return max(0, newest.timestamp_ms - oldest.timestamp_ms) / 1000
