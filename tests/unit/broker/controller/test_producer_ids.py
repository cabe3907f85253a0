"""Producer ids: no id is allocated twice, whatever fails."""

from __future__ import annotations

import asyncio

import pytest

from ruslo.broker.controller.producer_ids import ProducerIds
from ruslo.model.errors import ErrorCode, KafkaError
from tests.support.machines.controller_bench import admin_node


async def test_many_concurrent_requests_over_several_blocks() -> None:
    async with admin_node() as node:
        allocated = await asyncio.gather(*(node.producer_ids.generate() for _ in range(2500)))
        assert sorted(allocated) == list(range(2500))
        await asyncio.sleep(0.01)
        other = ProducerIds(node.controller, broker_id=1, broker_epoch=lambda: node.lifecycle.epoch)
        assert await other.generate() >= 3000, "another process starts after all allocated blocks"
        await other.stop()


async def test_no_producer_ids_without_a_controller() -> None:
    async with admin_node() as node:
        node.raft.resign()
        with pytest.raises(KafkaError) as error:
            await node.producer_ids.generate()
        assert error.value.code is ErrorCode.NOT_CONTROLLER
        node.raft.lead()
        assert await node.producer_ids.generate() == 0


async def test_stale_broker_epoch() -> None:
    async with admin_node() as node:
        stale = ProducerIds(node.controller, broker_id=1, broker_epoch=lambda: 1)
        with pytest.raises(KafkaError) as error:
            await stale.generate()
        assert error.value.code is ErrorCode.STALE_BROKER_EPOCH
