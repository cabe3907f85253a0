"""Sends the ISR changes of all partitions that this broker leads to the controller (AlterPartition)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from ruslo.broker.controller.controller_channel import ControllerChannel
from ruslo.broker.scheduling.background_tasks import cancel_all
from ruslo.broker.scheduling.scheduler import Priority, Scheduler
from ruslo.machines.replica.fetch_session_handler import TopicIdPartition
from ruslo.machines.replica.isr import Proposal
from ruslo.machines.replica.leader import AfterResponse
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid
from ruslo.model.log_ids import log_ids
from ruslo.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from ruslo.protocol.messages.alter_partition_response import AlterPartitionResponse
from ruslo.protocol.messages.alter_partition_response import PartitionData as PartitionResult

if TYPE_CHECKING:
    from ruslo.broker.partitions.leader import PartitionLeader

logger = logging.getLogger(__name__)

_Proposed: TypeAlias = "tuple[PartitionLeader, Proposal]"

_RETRY_BACKOFF_MS = 50
MAX_PARTITIONS_PER_REQUEST = 250
"""When a broker returns, thousands of partitions are in sync at once; a limited request leaves the event
loops of controller and leader time for others."""


@dataclass(eq=False)
class AlterPartitionManager:
    """One request is in flight at a time; further proposals go with the next."""

    _controller: ControllerChannel
    _scheduler: Scheduler
    _: KW_ONLY
    broker_id: int
    broker_epoch: Callable[[], int]

    def __post_init__(self) -> None:
        self._waiting: dict[TopicIdPartition, _Proposed] = {}
        self._task: asyncio.Task[None] | None = None
        self.rejected = 0
        """The number of proposals that the controller rejected since the start."""

    def propose(self, leader: PartitionLeader, proposal: Proposal) -> None:
        self._waiting[leader.log.topic_id, leader.log.partition.partition] = (leader, proposal)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        await cancel_all(self._task)

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch = dict(islice(self._waiting.items(), MAX_PARTITIONS_PER_REQUEST))
                for tp in batch:
                    del self._waiting[tp]
                try:
                    retries = self._apply(batch, await self._send(batch))
                except KafkaError as error:
                    logger.info("AlterPartition of %d partitions failed: %s", len(batch), error)
                    retries = batch
                if retries:
                    await asyncio.sleep(_RETRY_BACKOFF_MS / 1000)
                    # The leadership may be lost by now, or another ISR proposed.
                    self._waiting = {
                        tp: proposed
                        for tp, proposed in retries.items()
                        if proposed[0].is_pending(proposed[1])
                    } | self._waiting
                # A controller in this process may respond within the same iteration of the event loop.
                await self._scheduler.checkpoint(Priority.CLUSTER)
        finally:
            self._task = None

    async def _send(
        self, batch: Mapping[TopicIdPartition, _Proposed]
    ) -> dict[TopicIdPartition, PartitionResult]:
        topics: dict[Uuid, list[PartitionData]] = {}
        for (topic_id, index), (_, proposal) in batch.items():
            topics.setdefault(topic_id, []).append(
                PartitionData(
                    partition_index=index,
                    leader_epoch=proposal.leader_epoch,
                    partition_epoch=proposal.partition_epoch,
                    leader_recovery_state=proposal.recovery_state,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=member.broker_id, broker_epoch=member.broker_epoch)
                        for member in proposal.members
                    ],
                )
            )
        request = AlterPartitionRequest(
            broker_id=self.broker_id,
            broker_epoch=self.broker_epoch(),
            topics=[TopicData(topic_id=topic_id, partitions=listed) for topic_id, listed in topics.items()],
        )
        response = await self._controller.submit(request)
        assert isinstance(response, AlterPartitionResponse)
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code))
        return {
            (topic.topic_id, result.partition_index): result
            for topic in response.topics
            for result in topic.partitions
        }

    def _apply(
        self,
        batch: dict[TopicIdPartition, _Proposed],
        results: Mapping[TopicIdPartition, PartitionResult],
    ) -> dict[TopicIdPartition, _Proposed]:
        """Pass the results to the partitions; returns the proposals to send again."""
        retries = {}
        for tp, (leader, proposal) in batch.items():
            result = results.get(tp)
            if result is None or leader.replication is None:
                continue
            error = ErrorCode(result.error_code)
            self.rejected += error is not ErrorCode.NONE
            after = leader.on_isr_response(proposal, error, result.partition_epoch, tuple(result.isr))
            if error is ErrorCode.NONE:
                logger.info("ISR is now %s", result.isr, extra=log_ids(partition=leader.log.partition))
            if after is AfterResponse.RETRY:
                retries[tp] = (leader, proposal)
        return retries
