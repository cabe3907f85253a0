"""A coordinator's shards: one for each partition of its topic that this node leads.

Leadership comes and goes with the metadata. A shard that has become ours is loaded first, one shard after the
other, so the first ones serve their clients soon; until then clients are told to wait. A log that cannot be
replayed refuses its clients instead of serving half of them.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from ruslo.broker.coordinators.runtime.loading import load
from ruslo.broker.coordinators.runtime.placement import partition_of
from ruslo.broker.partitions.ack_wait import AckResult, Appended
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.scheduling.scheduler import Scheduler
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.image import MetadataImage
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, RusloError
from ruslo.records.batch import BatchHeader

logger = logging.getLogger(__name__)

_COMMIT_WAIT_MS = 1_000


class Shard(Protocol):
    partition: Partition
    active: bool
    """Loaded; until then the coordinator answers for it."""
    closed: bool
    refusal: ErrorCode
    """Why it is not active."""

    def replay_batch(self, header: BatchHeader, batch: memoryview) -> Iterator[None]: ...

    def activate(self) -> None:
        """The log is replayed: clients are served."""
        ...

    def close(self) -> None:
        """Answer whoever waits, decide nothing any more."""
        ...

    def is_of(self, partition: Partition) -> bool:
        """Whether it still stands for the partition as it is led now."""
        ...


ShardT = TypeVar("ShardT", bound=Shard)


class LedShards(Generic[ShardT]):
    def __init__(
        self,
        topic: str,
        partitions: PartitionManager,
        clock: Clock,
        make: Callable[[Partition], ShardT],
        scheduler: Scheduler,
        *,
        content: str,
        partition_count: int,
        load_buffer_bytes: int,
    ) -> None:
        """``content``: what a shard is full of, for the log; ``partition_count``: while there is no topic."""
        self._topic = topic
        self._partitions = partitions
        self._clock = clock
        self._make = make
        self._scheduler = scheduler
        self._content = content
        self._load_buffer_bytes = load_buffer_bytes
        self.partition_count = partition_count
        self._by_index: dict[int, ShardT] = {}
        self._to_load: deque[ShardT] = deque()
        self._loading: asyncio.Task[None] | None = None
        self._stopped = False

    # -- looking up ------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[ShardT]:
        return iter(list(self._by_index.values()))

    def get(self, index: int) -> ShardT | None:
        return self._by_index.get(index)

    def partition_of(self, key: str) -> int:
        return partition_of(key, self.partition_count)

    def serving(self, index: int) -> ShardT | ErrorCode:
        """The shard, or why it cannot be asked."""
        shard = self._by_index.get(index)
        if shard is None or not shard.partition.is_leader:
            return ErrorCode.NOT_COORDINATOR
        return shard if shard.active else shard.refusal

    def answered_for(self) -> list[int]:
        """Partitions that this node answers for, or will once they are loaded."""
        return [
            index
            for index, shard in self._by_index.items()
            if shard.active or shard.refusal is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        ]

    # -- following the metadata ------------------------------------------------------------------------------

    def follow(self, delta: MetadataDelta, image: MetadataImage) -> None:
        topic = image.topics.by_name.get(self._topic)
        if topic is not None:
            if topic.id not in delta.created_topics and topic.id not in delta.changed_partitions:
                return
            self.partition_count = len(topic.partitions)
        here = self._partitions.by_name.get(self._topic, {})
        led = {index: partition for index, partition in here.items() if partition.is_leader}
        for index, shard in list(self._by_index.items()):
            if index not in led or not shard.is_of(led[index]):
                self._unload(index)
        for index, partition in led.items():
            if index not in self._by_index:
                self._begin_load(index, partition)

    # -- loading and unloading -------------------------------------------------------------------------------

    def _begin_load(self, index: int, partition: Partition) -> None:
        if self._stopped:
            return
        shard = self._by_index[index] = self._make(partition)
        if partition.log.start_offset == partition.log.end_offset:
            shard.activate()
            return
        self._to_load.append(shard)
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load_all())

    async def _load_all(self) -> None:
        # What is loaded stays: looking for garbage among it again and again would stop the loop for longer
        # than anything else here, and so would every later collection unless it is told to pass it over.
        collects = gc.isenabled()
        gc.disable()
        try:
            while self._to_load:
                await self._load(self._to_load.popleft())
        finally:
            self._loading = None
            gc.freeze()
            if collects:
                gc.enable()

    async def _load(self, shard: ShardT) -> None:
        partition = shard.partition
        began_ms = self._clock.monotonic_ms()

        def still_wanted() -> bool:
            return not shard.closed and not partition.gone

        try:
            count = await load(
                partition, shard.replay_batch, self._load_buffer_bytes, still_wanted, self._scheduler
            )
        except Exception as error:
            self._refuse(shard, error)
            return
        if still_wanted():
            took_ms = self._clock.monotonic_ms() - began_ms
            logger.info("%s-%d: loaded %d records in %d ms", partition.topic, partition.index, count, took_ms)
            self._activate_when_committed(shard, partition.empty_append())

    def _activate_when_committed(self, shard: ShardT, replayed: Appended) -> None:
        """Activate the shard when all replayed records are committed: a power cut or another leader may still
        take the others back. Other shards do not wait for this one.
        """
        partition = shard.partition

        def decided(result: AckResult) -> None:
            if shard.closed or partition.gone:
                return
            if result is AckResult.TIMED_OUT:
                replayed.when_committed(_COMMIT_WAIT_MS, decided)
            elif result is AckResult.ACKED:
                self._activate(shard)
            # Fenced: this node leads the partition no more, and ``follow`` unloads the shard.

        replayed.when_committed(_COMMIT_WAIT_MS, decided)

    def _activate(self, shard: ShardT) -> None:
        try:
            shard.activate()
        except Exception as error:
            self._refuse(shard, error)

    def _refuse(self, shard: ShardT, error: Exception) -> None:
        """Whatever it is, what is in there is not known: serving the rest would lose it."""
        shard.close()
        logger.error(
            "%s-%d cannot be loaded, its %s are refused until this node starts again: %s",
            shard.partition.topic,
            shard.partition.index,
            self._content,
            error,
            exc_info=None if isinstance(error, RusloError) else error,
        )

    def _unload(self, index: int) -> None:
        self._by_index.pop(index).close()

    def reload(self, broken: ShardT) -> None:
        """The shard closed itself because its log could not be written."""
        index = broken.partition.index
        if self._by_index.get(index) is broken:
            del self._by_index[index]
            if broken.partition.is_leader and not broken.partition.gone:
                self._begin_load(index, broken.partition)

    async def stop(self) -> None:
        """Close all shards."""
        self._stopped = True
        for index in list(self._by_index):
            self._unload(index)
        self._to_load.clear()
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
