"""The driver's requests to the cluster: partitions, offsets, sizes, log directories."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from ruslo.client.admin.log_dirs import LogDirs
from ruslo.client.admin.offsets import Offsets
from ruslo.client.wire.metadata import TopicInfo
from ruslo.model.clock import SystemClock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.source.options import SourceOptions
from ruslo.pipeline.source.positions import EARLIEST, LATEST, Positions, resolve

_log = logging.getLogger(__name__)
_DEFAULT_BYTES_PER_OFFSET: Final = 1024.0
_SIZES_MAX_AGE_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class Replica:
    """The log directory and size of a leader's replica."""

    log_dir: str
    size_bytes: int


class DriverClient:
    """Blocking calls over one connection per broker. Used by one thread."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._runner = asyncio.Runner()
        self._cluster = options.client.new_cluster()
        self._offsets = Offsets(self._cluster)
        self._log_dirs = LogDirs(self._cluster)
        self._clock = SystemClock()
        self._bytes_per_offset: dict[TopicPartition, float] = {}
        self._sizes_expire_at_ms = 0

    def close(self) -> None:
        self._runner.run(self._cluster.close())
        self._runner.close()

    # -- partitions

    def partitions(self) -> dict[TopicPartition, TopicInfo]:
        """The partitions of the subscription that exist now."""
        return self._runner.run(self._partitions())

    async def _partitions(self) -> dict[TopicPartition, TopicInfo]:
        subscription = self._options.subscription
        metadata = await self._cluster.retrying(
            lambda: self._cluster.metadata(subscription.metadata_topics())
        )
        for name, error in metadata.errors.items():
            if error.code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE):
                raise KafkaError(error.code, f"topic {name!r}: {error.message}")
        return subscription.select(metadata)

    def topic_exists(self, name: str) -> bool:
        async def attempt() -> bool:
            return name in (await self._cluster.metadata([name])).topics

        return self._runner.run(self._cluster.retrying(attempt))

    # -- offsets

    def resolve(
        self, positions: Positions, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        return self._runner.run(resolve(self._offsets, positions, partitions, self._options.read_committed))

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._runner.run(self._find(partitions, EARLIEST))

    def latest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The end offsets that the query may read: the last stable offsets with read_committed."""
        return self._runner.run(self._find(partitions, LATEST))

    async def _find(self, partitions: Collection[TopicPartition], spec: int) -> dict[TopicPartition, int]:
        found = await self._offsets.find(
            dict.fromkeys(partitions, spec), read_committed=self._options.read_committed
        )
        return {partition: listed.offset for partition, listed in found.items()}

    def snapshot(self) -> tuple[dict[TopicPartition, TopicInfo], dict[TopicPartition, int]]:
        """Partitions and their end offsets. Every micro-batch starts with this call."""

        async def fetch() -> tuple[dict[TopicPartition, TopicInfo], dict[TopicPartition, int]]:
            partitions = await self._partitions()
            return partitions, await self._find(partitions, LATEST)

        return self._runner.run(fetch())

    # -- sizes

    def bytes_per_offset(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, float]:
        """The log size divided by its offsets; a default where brokers do not report log directories."""
        now_ms = self._clock.monotonic_ms()
        unknown = any(partition not in self._bytes_per_offset for partition in partitions)
        if unknown or now_ms >= self._sizes_expire_at_ms:
            self._bytes_per_offset = self._runner.run(self._measure(partitions))
            self._sizes_expire_at_ms = now_ms + _SIZES_MAX_AGE_MS
        return self._bytes_per_offset

    async def _measure(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, float]:
        measured = dict.fromkeys(partitions, _DEFAULT_BYTES_PER_OFFSET)
        try:
            replicas = await self._leader_replicas(partitions)
        except KafkaError as error:
            _log.info("log directories are unavailable (%s): assuming 1 KB per record", error)
            return measured
        first = await self._find(replicas, EARLIEST)
        following = await self._find(replicas, LATEST)
        for partition, replica in replicas.items():
            count = following[partition] - first[partition]
            if count > 0:
                measured[partition] = max(1.0, replica.size_bytes / count)
        return measured

    def leader_replicas(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Replica]:
        return self._runner.run(self._leader_replicas(partitions))

    async def _leader_replicas(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Replica]:
        leaders = await self._cluster.leaders(list(partitions))
        found: dict[TopicPartition, Replica] = {}
        for node_id, led in leaders.items():
            wanted = set(led)
            for directory in await self._log_dirs.describe(node_id):
                for replica in directory.replicas:
                    if replica.partition in wanted and not replica.is_future:
                        found[replica.partition] = Replica(directory.path, replica.size_bytes)
        return found


def topic_ids(topics: Iterable[TopicInfo]) -> dict[str, Uuid]:
    return {topic.name: topic.topic_id for topic in topics}
