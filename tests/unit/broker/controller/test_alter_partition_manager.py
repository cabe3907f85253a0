"""ISR proposals are sent in requests of limited size, each with the latest proposal of a partition."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

from ruslo.broker.controller.alter_partition_manager import MAX_PARTITIONS_PER_REQUEST, AlterPartitionManager
from ruslo.broker.partitions.leader import PartitionLeader
from ruslo.broker.scheduling.scheduler import Scheduler
from ruslo.machines.replica.isr import Proposal
from ruslo.model.clock import SystemClock
from ruslo.model.topics import TopicPartition
from ruslo.protocol.message import Message
from ruslo.protocol.messages.alter_partition_request import AlterPartitionRequest
from ruslo.protocol.messages.alter_partition_response import AlterPartitionResponse
from tests.support.machines.controller_bench import numbered_uuid


class Controller:
    """A controller that records requests and sends empty responses."""

    def __init__(self) -> None:
        self.requests: list[list[tuple[int, int]]] = []

    def submit(self, request: Message, *, timeout_ms: int = 0) -> asyncio.Future[Message]:
        assert isinstance(request, AlterPartitionRequest)
        (topic,) = request.topics
        self.requests.append([(each.partition_index, each.partition_epoch) for each in topic.partitions])
        response: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        response.set_result(AlterPartitionResponse())
        return response


async def test_thousands_of_proposals_go_in_several_requests() -> None:
    controller = Controller()
    proposals = AlterPartitionManager(
        controller, Scheduler(SystemClock()), broker_id=1, broker_epoch=lambda: 7
    )
    count = 2 * MAX_PARTITIONS_PER_REQUEST + 10
    for partition_epoch in (4, 5):
        for index in range(count):
            log = SimpleNamespace(topic_id=numbered_uuid(1), partition=TopicPartition("t", index))
            leader = SimpleNamespace(log=log, replication=None)
            proposals.propose(cast(PartitionLeader, leader), Proposal(3, partition_epoch, ()))
    async with asyncio.timeout(30):
        while sum(map(len, controller.requests)) < count:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert [len(each) for each in controller.requests] == [
        MAX_PARTITIONS_PER_REQUEST,
        MAX_PARTITIONS_PER_REQUEST,
        10,
    ]
    assert [each for requested in controller.requests for each in requested] == [(n, 5) for n in range(count)]
    await proposals.stop()
