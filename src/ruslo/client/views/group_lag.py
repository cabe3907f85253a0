"""The lag of a group, in records and in seconds.

- Records: offsets between the committed offset and the end of the partition, as Kafka's own tool counts them.
- Seconds: the timestamp of the newest record minus that of the record at the committed offset. This is how
  much of the topic's history the group has not read. Unlike the age of a commit it does not increase while
  producers are idle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.offsets import Spec
from ruslo.client.views.record_times import RecordTimes
from ruslo.model.errors import KafkaError, ProtocolError
from ruslo.model.topics import TopicPartition

NOT_COMMITTED = -1
_CONCURRENT_PARTITIONS_MAX = 16


class PartitionLag(NamedTuple):
    end_offset: int | None
    """None when the partition has no leader or does not exist any more."""
    records: int | None
    seconds: float | None
    """None when it is unknown: no committed offset, records without timestamps, or no permission to read."""


async def measure_lag(
    admin: Admin, committed: Mapping[TopicPartition, int], *, in_seconds: bool = True
) -> dict[TopicPartition, PartitionLag]:
    """``committed`` is NOT_COMMITTED for partitions of which only the end offset is wanted."""
    ends = await end_offsets(admin, committed)
    behind = [
        partition
        for partition, end in ends.items()
        if in_seconds and NOT_COMMITTED < committed[partition] < end
    ]
    starts = await admin.offsets.find(dict.fromkeys(behind, Spec.EARLIEST))
    times = RecordTimes(admin)
    limit = asyncio.Semaphore(_CONCURRENT_PARTITIONS_MAX)

    async def seconds(partition: TopicPartition) -> float | None:
        async with limit:
            # Records that retention has deleted do not count as lag.
            first = max(committed[partition], starts[partition].offset)
            return await _seconds(times, partition, first, ends[partition])

    behind_s = dict(zip(behind, await asyncio.gather(*map(seconds, behind)), strict=True))
    lags = {}
    for partition, offset in committed.items():
        end = ends.get(partition)
        if end is None or offset == NOT_COMMITTED:
            lags[partition] = PartitionLag(end, None, None)
        else:
            caught_up = 0.0 if in_seconds and offset >= end else None
            lags[partition] = PartitionLag(end, max(0, end - offset), behind_s.get(partition, caught_up))
    return lags


async def end_offsets(admin: Admin, partitions: Mapping[TopicPartition, object]) -> dict[TopicPartition, int]:
    """The end offset of each partition that exists and has a leader."""
    metadata = await admin.cluster.metadata({partition.topic for partition in partitions})
    led = []
    for partition in partitions:
        topic = metadata.topics.get(partition.topic)
        found = None if topic is None else topic.partition(partition.partition)
        if found is not None and found.leader_id >= 0:
            led.append(partition)
    listed = await admin.offsets.find(dict.fromkeys(led, Spec.LATEST))
    return {partition: found.offset for partition, found in listed.items()}


async def _seconds(times: RecordTimes, partition: TopicPartition, first: int, end: int) -> float | None:
    try:
        oldest = await times.first_from(partition, first, end)
        if oldest is None:
            return 0.0  # only transaction markers and compacted offsets are left
        newest = await times.last_before(partition, end, first)
    except (KafkaError, ProtocolError):
        # The caller may lack permission to read, or retention may have deleted the records. An unknown lag of
        # one partition must not hide the lag of the others.
        return None
    if newest is None or oldest.timestamp_ms is None or newest.timestamp_ms is None:
        return None
    # Producers set the timestamps, so a newer record may have an older one.
    return max(0, newest.timestamp_ms - oldest.timestamp_ms) / 1000
