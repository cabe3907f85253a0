"""Waiting until the node has applied all committed records of the quorum."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

from ruslo.broker.quorum.catch_up import CatchUp
from ruslo.broker.quorum.peers import Peers
from ruslo.machines.raft.machine import RaftMachine
from ruslo.machines.raft.rpc import RaftFetchResponse, RaftResponse
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
    """The connection to the leader; the test decides when it responds."""

    def __init__(self) -> None:
        self.respond: Callable[[RaftResponse | None], None] | None = None

    def send(
        self,
        node_id: int,
        endpoint: Endpoint,
        request: object,
        on_response: Callable[[RaftResponse | None], None],
    ) -> None:
        self.respond = on_response


def response(high_watermark: int) -> RaftFetchResponse:
    return RaftFetchResponse(ErrorCode.NONE, epoch=1, leader_id=2, high_watermark=high_watermark)


async def start_waiting(
    catch_up: CatchUp, leader: Leader
) -> tuple[asyncio.Task[None], Callable[[RaftResponse], None]]:
    waiting = asyncio.create_task(catch_up.wait(FOLLOWER))
    await asyncio.sleep(0)
    assert leader.respond is not None
    return waiting, leader.respond


async def test_records_that_arrive_before_the_leaders_response_count() -> None:
    leader = Leader()
    catch_up = CatchUp(cast(Peers, leader))
    catch_up.advance(5)
    waiting, respond = await start_waiting(catch_up, leader)
    catch_up.advance(9)
    respond(response(9))
    async with asyncio.timeout(30):
        await waiting


async def test_waits_for_the_leaders_high_watermark() -> None:
    leader = Leader()
    catch_up = CatchUp(cast(Peers, leader))
    catch_up.advance(5)
    waiting, respond = await start_waiting(catch_up, leader)
    respond(response(9))
    for offset in (6, 8):
        catch_up.advance(offset)
        await asyncio.sleep(0)
        assert not waiting.done()
    catch_up.advance(9)
    async with asyncio.timeout(30):
        await waiting


async def test_a_response_after_the_caller_gave_up_is_ignored() -> None:
    leader = Leader()
    waiting, respond = await start_waiting(CatchUp(cast(Peers, leader)), leader)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    respond(response(9))
