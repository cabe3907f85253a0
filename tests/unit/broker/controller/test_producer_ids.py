"""Producer ids: never allocated twice, whatever fails."""

from __future__ import annotations

import asyncio

import pytest

from ruslo.broker.controller.producer_ids import ProducerIds
from ruslo.model.errors import ErrorCode, KafkaError
from tests.support.machines.controller_bench import admin_node


async def test_many_at_once_over_several_blocks() -> None:
    async with admin_node() as node:
        given = await asyncio.gather(*(node.producer_ids.generate() for _ in range(2500)))
        assert sorted(given) == list(range(2500))
        await asyncio.sleep(0.01)
        other = ProducerIds(node.controller, broker_id=1, broker_epoch=lambda: node.lifecycle.epoch)
        assert await other.generate() >= 3000, "another process begins behind all blocks handed out"
        await other.stop()


async def test_no_controller_no_ids() -> None:
    async with admin_node() as node:
        node.raft.resign()
        with pytest.raises(KafkaError) as error:
            await node.producer_ids.generate()
        assert error.value.code is ErrorCode.NOT_CONTROLLER
        node.raft.lead()
        assert await node.producer_ids.generate() == 0


async def test_stale_epoch() -> None:
    async with admin_node() as node:
        stale = ProducerIds(node.controller, broker_id=1, broker_epoch=lambda: 1)
        with pytest.raises(KafkaError) as error:
            await stale.generate()
        assert error.value.code is ErrorCode.STALE_BROKER_EPOCH
