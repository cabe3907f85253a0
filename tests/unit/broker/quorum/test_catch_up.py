"""Waiting until what is committed anywhere is known here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from ruslo.broker.quorum.catch_up import CatchUp
from ruslo.broker.quorum.peers import Peers
from ruslo.machines.raft.machine import RaftMachine
from ruslo.machines.raft.rpc import Answer, FetchAnswer
from ruslo.machines.raft.voters import Endpoint
from ruslo.model.errors import ErrorCode

FOLLOWER = cast(
    RaftMachine,
    SimpleNamespace(
        node_id=1,
        leader_id=2,
        leader_endpoint=Endpoint("CONTROLLER", "127.0.0.1", 9093),
        epoch=1,
        high_watermark=5,
        log=SimpleNamespace(end_offset=9, last_epoch=1),
    ),
)


class Leader:
    """The way to it; what it is asked is answered when the test says so."""

    def __init__(self) -> None:
        self.answer: Callable[[Answer | None], None] | None = None

    def ask(
        self, node_id: int, endpoint: Endpoint, ask: object, on_answer: Callable[[Answer | None], None]
    ) -> None:
        self.answer = on_answer


def told(high_watermark: int) -> FetchAnswer:
    return FetchAnswer(ErrorCode.NONE, epoch=1, leader_id=2, high_watermark=high_watermark)


async def asked(catch_up: CatchUp, leader: Leader) -> tuple[asyncio.Task[None], Callable[[Answer], None]]:
    waiting = asyncio.create_task(catch_up.wait(FOLLOWER))
    await asyncio.sleep(0)
    assert leader.answer is not None
    return waiting, leader.answer


def test_what_arrives_before_the_leaders_answer_counts() -> None:
    async def story() -> None:
        leader = Leader()
        catch_up = CatchUp(cast(Peers, leader))
        catch_up.applied(5)
        waiting, answer = await asked(catch_up, leader)
        catch_up.applied(9)
        answer(told(9))
        await waiting

    asyncio.run(asyncio.wait_for(story(), 30))


def test_what_is_not_known_yet_is_waited_for() -> None:
    async def story() -> None:
        leader = Leader()
        catch_up = CatchUp(cast(Peers, leader))
        catch_up.applied(5)
        waiting, answer = await asked(catch_up, leader)
        answer(told(9))
        for offset in (6, 8):
            catch_up.applied(offset)
            await asyncio.sleep(0)
            assert not waiting.done()
        catch_up.applied(9)
        await waiting

    asyncio.run(asyncio.wait_for(story(), 30))


def test_an_answer_that_nobody_waits_for_any_more() -> None:
    async def story() -> None:
        leader = Leader()
        waiting, answer = await asked(CatchUp(cast(Peers, leader)), leader)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        answer(told(9))

    asyncio.run(asyncio.wait_for(story(), 30))
