"""Loads share-partitions: reads their states from the share coordinators, and finds where new groups start.

Share-partitions of a group whose states are on the same node share requests, ``CHUNK`` at a time: the first
fetch of a member, or the first one after a failover, may need thousands.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from ruslo.broker.coordinators.share.persister import CHUNK, Results, SharePersister
from ruslo.broker.scheduling.background_tasks import BackgroundTasks
from ruslo.broker.share_partitions.led_partition import LedSharePartition
from ruslo.broker.share_partitions.persister_errors import persister_error
from ruslo.broker.share_partitions.start_offset import initial_offset
from ruslo.machines.share_coordinator.records import UNINITIALIZED_START_OFFSET
from ruslo.machines.share_coordinator.responses import merged
from ruslo.machines.share_partition.partition import SharePartition
from ruslo.machines.share_partition.values import StateBatch
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.protocol.messages.read_share_group_state_request import (
    PartitionData,
    ReadShareGroupStateRequest,
    ReadStateData,
)
from ruslo.protocol.messages.read_share_group_state_response import PartitionResult

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class ShareLoader:
    _persister: SharePersister
    _clock: Clock
    _on_loaded: Callable[[LedSharePartition, SharePartition], None]
    _on_failed: Callable[[LedSharePartition, KafkaError | StorageError], None]
    _run_soon: Callable[[Callable[[], None]], object]
    """``call_soon`` of the event loop."""
    _requested: list[LedSharePartition] = field(default_factory=list)
    _tasks: BackgroundTasks = field(default_factory=BackgroundTasks)

    def load(self, led: LedSharePartition) -> None:
        if not self._requested:
            self._run_soon(self._send)
        self._requested.append(led)

    async def stop(self) -> None:
        await self._tasks.stop()

    def _send(self) -> None:
        requested, self._requested = self._requested, []
        targets: dict[tuple[str, int], list[LedSharePartition]] = {}
        for led in requested:
            targets.setdefault((led.key.group_id, self._persister.node_of(led.key)), []).append(led)
        for partitions in targets.values():
            self._tasks.start(self._load_all(partitions))

    async def _load_all(self, partitions: list[LedSharePartition]) -> None:
        for at in range(0, len(partitions), CHUNK):
            chunk = partitions[at : at + CHUNK]
            results: Results = {}
            try:
                results = await self._persister.request(merged(_request(led) for led in chunk))
            except Exception:
                logger.exception("reading share state failed")
            for led in chunk:
                try:
                    machine = self._machine_of(led, results.get(led.key))
                except (KafkaError, StorageError) as error:
                    self._on_failed(led, error)
                except Exception:
                    # A fault of one share-partition must not leave the others loading for ever.
                    logger.exception("loading the share-partition %s failed", led)
                    self._on_failed(led, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Loading {led} failed."))
                else:
                    self._on_loaded(led, machine)

    def _machine_of(self, led: LedSharePartition, state: PartitionResult | None) -> SharePartition:
        """The machine with the persisted state; raises KafkaError or StorageError."""
        if state is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The state of {led} could not be read.")
        error = persister_error(state.error_code, state.error_message)
        if error is not None:
            raise error
        led.state_epoch = state.state_epoch
        start_offset = state.start_offset
        led.has_persisted_start = start_offset != UNINITIALIZED_START_OFFSET
        if start_offset == UNINITIALIZED_START_OFFSET:
            start_offset = initial_offset(led.partition, led.config.offset_reset, self._clock.now_ms())
        batches = [
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in state.state_batches
        ]
        try:
            return SharePartition(led.config.settings, start_offset, batches)
        except ValueError as invalid:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"The state of {led} cannot be loaded: {invalid}."
            ) from invalid


def _request(led: LedSharePartition) -> ReadShareGroupStateRequest:
    """Reading with the leader epoch fences writes of the leader before."""
    data = PartitionData(partition=led.key.partition, leader_epoch=led.leader_epoch)
    topics = [ReadStateData(topic_id=led.key.topic_id, partitions=[data])]
    return ReadShareGroupStateRequest(group_id=led.key.group_id, topics=topics)
