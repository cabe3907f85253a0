"""Asks the controller for other in-sync sets, for all partitions that this broker leads (AlterPartition)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from ruslo.broker.controller.broker_lifecycle import ControllerChannel
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
from ruslo.protocol.messages.alter_partition_response import PartitionData as PartitionAnswer

if TYPE_CHECKING:
    from ruslo.broker.partitions.leader import PartitionLeader

logger = logging.getLogger(__name__)

_Proposed: TypeAlias = "tuple[PartitionLeader, Proposal]"

_RETRY_MS = 50
AT_MOST = 250
"""In one request: with a broker that comes back thousands of partitions are in sync at once, and the event
loops of controller and leader serve others too."""


class AlterPartitionManager:
    """One request is under way at a time; what comes up meanwhile goes with the next."""

    def __init__(
        self, controller: ControllerChannel, *, broker_id: int, broker_epoch: Callable[[], int]
    ) -> None:
        self._controller = controller
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._waiting: dict[TopicIdPartition, _Proposed] = {}
        self._task: asyncio.Task[None] | None = None
        self.refused = 0
        """How many proposals the controller did not accept, since the start."""

    def propose(self, leader: PartitionLeader, proposal: Proposal) -> None:
        self._waiting[leader.log.topic_id, leader.log.partition.partition] = (leader, proposal)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while self._waiting:
                round_ = dict(islice(self._waiting.items(), AT_MOST))
                for place in round_:
                    del self._waiting[place]
                try:
                    again = self._settle(round_, await self._ask(round_))
                except KafkaError as error:
                    logger.info("the controller did not decide on %d in-sync sets: %s", len(round_), error)
                    again = round_
                if again:
                    await asyncio.sleep(_RETRY_MS / 1000)
                    # Leadership may be gone by now, or the set may have been proposed anew.
                    self._waiting = {
                        place: asked for place, asked in again.items() if asked[0].is_pending(asked[1])
                    } | self._waiting
                # A controller in this process works out the next answer in the same turn as it is asked.
                await asyncio.sleep(0)
        finally:
            self._task = None

    async def _ask(
        self, round_: Mapping[TopicIdPartition, _Proposed]
    ) -> dict[TopicIdPartition, PartitionAnswer]:
        topics: dict[Uuid, list[PartitionData]] = {}
        for (topic_id, index), (_, proposal) in round_.items():
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
            broker_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
            topics=[TopicData(topic_id=topic_id, partitions=listed) for topic_id, listed in topics.items()],
        )
        response = await self._controller.submit(request)
        assert isinstance(response, AlterPartitionResponse)
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code))
        return {
            (topic.topic_id, answer.partition_index): answer
            for topic in response.topics
            for answer in topic.partitions
        }

    def _settle(
        self,
        round_: dict[TopicIdPartition, _Proposed],
        answers: Mapping[TopicIdPartition, PartitionAnswer],
    ) -> dict[TopicIdPartition, _Proposed]:
        """Tell the partitions; returns what has to be asked again."""
        again = {}
        for place, (leader, proposal) in round_.items():
            answer = answers.get(place)
            if answer is None or leader.replication is None:
                continue
            error = ErrorCode(answer.error_code)
            self.refused += error is not ErrorCode.NONE
            after = leader.on_isr_response(proposal, error, answer.partition_epoch, tuple(answer.isr))
            if error is ErrorCode.NONE:
                logger.info("in-sync replicas: %s", answer.isr, extra=log_ids(partition=leader.log.partition))
            if after is AfterResponse.RETRY:
                again[place] = (leader, proposal)
        return again
