from __future__ import annotations

import asyncio

from ruslo.broker.controller.link import ControllerLink
from ruslo.machines.raft.voters import Endpoint
from ruslo.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ruslo.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from tests.support.brokers.scripted_broker import ReceivedRequest, ScriptedBroker, ScriptedResponse

HEARTBEAT = BrokerHeartbeatRequest.API_KEY


def test_nothing_waits_behind_a_request_that_was_given_up() -> None:
    """The network may have taken it, and be back long before TCP sends it again."""
    is_cut_off = True
    arrived = asyncio.Event()

    async def answer(asked: ReceivedRequest) -> ScriptedResponse:
        if asked.api_key != HEARTBEAT:
            raise KeyError
        if is_cut_off:
            arrived.set()
            await asyncio.Event().wait()
        return BrokerHeartbeatResponse(is_caught_up=True)

    async def story() -> None:
        nonlocal is_cut_off
        async with ScriptedBroker(answer) as controller:
            link = ControllerLink(client_id="1", connect_timeout_ms=10_000)
            endpoint = Endpoint("CONTROLLER", "127.0.0.1", controller.port)
            asking = asyncio.ensure_future(
                link.request(endpoint, BrokerHeartbeatRequest(broker_id=1), timeout_ms=60_000)
            )
            await arrived.wait()
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            is_cut_off = False
            response = await link.request(endpoint, BrokerHeartbeatRequest(broker_id=1), timeout_ms=60_000)
            assert isinstance(response, BrokerHeartbeatResponse)
            assert response.is_caught_up
            assert controller.connections == 2
            await link.close()

    asyncio.run(asyncio.wait_for(story(), 60))
