"""The lags and log sizes of partitions, for assignors that use them.

They are known only for partitions that this node leads.
"""

from __future__ import annotations

from dataclasses import replace

from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.scheduling.scheduler import Steps
from ruslo.machines.assignors.spec import UNKNOWN, GroupSpec, TopicSpec
from ruslo.machines.groups.offsets.store import OffsetStore


def with_lags(group: GroupSpec, offsets: OffsetStore, partitions: PartitionManager) -> Steps[GroupSpec]:
    """Return the same group with lags and sizes filled in, a topic in each step."""
    topics = {}
    for topic_id, topic in group.topics.items():
        topics[topic_id] = _filled(group.group_id, topic, offsets, partitions)
        yield
    return replace(group, topics=topics)


def _filled(group_id: str, topic: TopicSpec, offsets: OffsetStore, partitions: PartitionManager) -> TopicSpec:
    here = partitions.by_id.get(topic.topic_id, {})
    committed = offsets.of_group(group_id).get(topic.name, {})
    lags, sizes = [], []
    for index in range(topic.partition_count):
        partition = here.get(index)
        if partition is None or not partition.is_leader:
            lags.append(UNKNOWN)
            sizes.append(UNKNOWN)
            continue
        log = partition.log
        known = committed.get(index)
        # Without a commit, or if retention has deleted the committed offset, the whole log is unread.
        read_to = log.start_offset if known is None else max(known.offset, log.start_offset)
        lags.append(max(log.high_watermark - read_to, 0))
        sizes.append(log.size_bytes)
    return replace(topic, lags=tuple(lags), sizes=tuple(sizes))
