"""A topic with its partitions, offsets, sizes and configs."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.configs import ConfigEntry, ConfigSource, Resource
from ruslo.client.wire.metadata import TopicInfo
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import uuid_to_text
from ruslo.model.topics import TopicPartition
from ruslo.model.units import sum_known


@dataclass(frozen=True, slots=True)
class PartitionView:
    partition: int
    leader: int | None
    epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    first_offset: int | None
    next_offset: int | None
    size_bytes: int | None
    """The size of the leader's log."""


@dataclass(frozen=True, slots=True)
class TopicView:
    name: str
    topic_id: str
    internal: bool
    partitions: tuple[PartitionView, ...]
    configs: tuple[ConfigEntry, ...]

    @property
    def record_count(self) -> int:
        """An upper bound: offsets of compacted records and transaction markers count too."""
        return sum((p.next_offset or 0) - (p.first_offset or 0) for p in self.partitions)

    @property
    def size_bytes(self) -> int | None:
        return sum_known(p.size_bytes for p in self.partitions)

    def shown_configs(self, everything: bool) -> list[ConfigEntry]:
        return [c for c in self.configs if everything or c.source == ConfigSource.TOPIC]

    def as_json(self, all_configs: bool) -> dict[str, object]:
        return {
            "name": self.name,
            "topic_id": self.topic_id,
            "internal": self.internal,
            "records": self.record_count,
            "size_bytes": self.size_bytes,
            "configs": {
                c.name: {"value": c.value, "source": c.source.name.lower()}
                for c in self.shown_configs(all_configs)
            },
            "partitions": [asdict(partition) for partition in self.partitions],
        }


async def describe_topic(admin: Admin, name: str) -> TopicView:
    info = await admin.topics.describe(name)
    led = [TopicPartition(name, p.partition) for p in info.partitions if p.leader_id >= 0]
    ranges = await admin.offsets.ranges(led)
    sizes = await _leader_sizes(admin, info)
    configs = await _configs(admin, name)
    partitions = []
    for p in info.partitions:
        tp = TopicPartition(name, p.partition)
        first, end = ranges.get(tp, (None, None))
        partitions.append(
            PartitionView(
                p.partition,
                p.leader_id if p.leader_id >= 0 else None,
                p.leader_epoch,
                p.replicas,
                p.isr,
                p.offline,
                first,
                end,
                sizes.get(tp),
            )
        )
    return TopicView(name, uuid_to_text(info.topic_id), info.internal, tuple(partitions), tuple(configs))


async def _configs(admin: Admin, name: str) -> list[ConfigEntry]:
    """Empty without the permission DESCRIBE_CONFIGS, which must not hide the rest of the view."""
    try:
        return await admin.configs.describe(Resource.topic(name))
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise
        return []


async def _leader_sizes(admin: Admin, info: TopicInfo) -> dict[TopicPartition, int]:
    leaders = {TopicPartition(info.name, p.partition): p.leader_id for p in info.partitions}
    sizes = {}
    for node_id in {leader for leader in leaders.values() if leader >= 0}:
        try:
            directories = await admin.log_dirs.describe(node_id)
        except KafkaError as error:
            # A missing permission to describe log directories must not hide the rest of the view.
            if error.code in (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION):
                continue
            raise
        for directory in directories:
            for replica in directory.replicas:
                if leaders.get(replica.partition) == node_id and not replica.is_future:
                    sizes[replica.partition] = replica.size_bytes
    return sizes
