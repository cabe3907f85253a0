"""A coordinator of this node: one shard for each partition of its topic that the node leads.

Leadership changes with the metadata. A new shard is loaded before it serves, one shard after the other, so
the first ones serve soon; until then requests fail with COORDINATOR_LOAD_IN_PROGRESS. A shard whose log
cannot be replayed rejects all requests, because part of its state would be missing.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic

from ruslo.broker.coordinators.runtime.kind import CoordinatorKind, MachineT
from ruslo.broker.coordinators.runtime.loading import load
from ruslo.broker.coordinators.runtime.placement import partition_of
from ruslo.broker.coordinators.runtime.shard import CoordinatorShard
from ruslo.broker.partitions.ack_wait import AckResult, Appended
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.partitions.partition import Partition
from ruslo.broker.scheduling.background_tasks import cancel_all
from ruslo.broker.scheduling.scheduler import Scheduler
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.image import MetadataImage
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, RusloError
from ruslo.protocol.message import Message

logger = logging.getLogger(__name__)

_COMMIT_WAIT_MS = 1_000


@dataclass(eq=False)
class Coordinator(Generic[MachineT]):
    _kind: CoordinatorKind[MachineT]
    _partitions: PartitionManager
    _clock: Clock
    _scheduler: Scheduler

    def __post_init__(self) -> None:
        self._partition_count = self._kind.partition_count
        self._by_index: dict[int, CoordinatorShard[MachineT]] = {}
        self._to_load: deque[CoordinatorShard[MachineT]] = deque()
        self._loading: asyncio.Task[None] | None = None
        self._stopped = False

    # -- requests and events ---------------------------------------------------------------------------------

    def partition_of(self, key: str) -> int:
        """The partition of the topic that stores the group or transactional id."""
        return partition_of(key, self._partition_count)

    def submit_to_shard(
        self, partition: int, request: Message, api_version: int, context: object
    ) -> Message | asyncio.Future[Message]:
        """Let the partition's shard handle a request, or respond with the reason why it cannot."""
        shard = self.serving(partition)
        if isinstance(shard, ErrorCode):
            return self._kind.error_response(request, api_version, shard)
        return shard.submit(request, api_version, context)

    def serving(self, index: int) -> CoordinatorShard[MachineT] | ErrorCode:
        """The active shard of the partition, or the error of requests for it."""
        shard = self._by_index.get(index)
        if shard is None or not shard.partition.is_leader:
            return ErrorCode.NOT_COORDINATOR
        return shard if shard.active else shard.error

    def get(self, index: int) -> CoordinatorShard[MachineT] | None:
        return self._by_index.get(index)

    def is_active(self, index: int) -> bool:
        """Whether this node has loaded the partition."""
        shard = self._by_index.get(index)
        return shard is not None and shard.active

    def partitions(self) -> list[int]:
        """The partitions that this node coordinates, or will when they are loaded."""
        return [
            index
            for index, shard in self._by_index.items()
            if shard.active or shard.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        ]

    def machines(self) -> Iterator[MachineT]:
        """The machines of all shards, loaded or not."""
        return (shard.machine for shard in self._by_index.values())

    def active_machines(self) -> list[MachineT]:
        return [shard.machine for shard in self._by_index.values() if shard.active]

    def broadcast(self, event: object) -> None:
        """Let every active shard handle the event."""
        for shard in list(self._by_index.values()):
            if shard.active:
                shard.handle(event)

    # -- metadata --------------------------------------------------------------------------------------------

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        topic = image.topics.by_name.get(self._kind.topic)
        if topic is not None:
            if topic.id not in delta.created_topics and topic.id not in delta.changed_partitions:
                return
            self._partition_count = len(topic.partitions)
        here = self._partitions.by_name.get(self._kind.topic, {})
        led = {index: partition for index, partition in here.items() if partition.is_leader}
        for index, shard in list(self._by_index.items()):
            if index not in led or not shard.serves(led[index]):
                self._by_index.pop(index).close()
        for index, partition in led.items():
            if index not in self._by_index:
                self._start_load(index, partition)

    # -- loading and unloading -------------------------------------------------------------------------------

    def _start_load(self, index: int, partition: Partition) -> None:
        if self._stopped:
            return
        shard = self._by_index[index] = CoordinatorShard(
            self._kind,
            partition,
            self._clock,
            self._scheduler,
            on_storage_error=self._partitions.storage_failed,
            reload=self._reload,
        )
        if partition.log.start_offset == partition.log.end_offset:
            shard.activate()
            return
        self._to_load.append(shard)
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load_all())

    async def _load_all(self) -> None:
        # Loaded state is long-lived. Garbage collections that scan it would block the event loop for longer
        # than anything else here: none runs while it is loaded, and later ones skip it.
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

    async def _load(self, shard: CoordinatorShard[MachineT]) -> None:
        partition = shard.partition
        began_ms = self._clock.monotonic_ms()

        def is_needed() -> bool:
            return not shard.closed and not partition.gone

        try:
            count = await load(
                partition, shard.replay_batch, self._kind.load_buffer_bytes, is_needed, self._scheduler
            )
        except Exception as error:
            self._reject(shard, error)
            return
        if is_needed():
            took_ms = self._clock.monotonic_ms() - began_ms
            logger.info("%s: loaded %d records in %d ms", shard, count, took_ms)
            self._activate_when_committed(shard, partition.empty_append())

    def _activate_when_committed(self, shard: CoordinatorShard[MachineT], replayed: Appended) -> None:
        """Activate the shard when all replayed records are committed: the others may still be truncated.

        Other shards are loaded meanwhile.
        """
        partition = shard.partition

        def on_ack(result: AckResult) -> None:
            if shard.closed or partition.gone:
                return
            if result is AckResult.TIMED_OUT:
                replayed.when_committed(_COMMIT_WAIT_MS, on_ack)
            elif result is AckResult.ACKED:
                try:
                    shard.activate()
                except Exception as error:
                    self._reject(shard, error)
            # Fenced: this node no longer leads the partition, and ``apply`` closes the shard.

        replayed.when_committed(_COMMIT_WAIT_MS, on_ack)

    def _reject(self, shard: CoordinatorShard[MachineT], error: Exception) -> None:
        """Close a shard whose log could not be loaded: serving a part of its state would lose the rest."""
        shard.close()
        logger.error(
            "%s cannot be loaded, its %s are rejected until this node restarts: %s",
            shard,
            self._kind.content,
            error,
            exc_info=None if isinstance(error, RusloError) else error,
        )

    def _reload(self, broken: CoordinatorShard[MachineT]) -> None:
        index = broken.partition.index
        if self._by_index.get(index) is broken:
            del self._by_index[index]
            if broken.partition.is_leader and not broken.partition.gone:
                self._start_load(index, broken.partition)

    async def stop(self) -> None:
        """Close all shards."""
        self._stopped = True
        for index in list(self._by_index):
            self._by_index.pop(index).close()
        self._to_load.clear()
        await cancel_all(self._loading)
