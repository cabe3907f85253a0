from __future__ import annotations

import asyncio

from ruslo.broker.controller.link import ControllerLink
from ruslo.machines.raft.voters import Endpoint
from ruslo.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ruslo.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from tests.support.brokers.scripted_broker import ReceivedRequest, ScriptedBroker, ScriptedResponse

HEARTBEAT = BrokerHeartbeatRequest.API_KEY


def test_requests_do_not_wait_behind_an_abandoned_one() -> None:
    """The network may have lost the request and recover long before TCP retransmits it."""
    is_partitioned = True
    arrived = asyncio.Event()

    async def script(received: ReceivedRequest) -> ScriptedResponse:
        if received.api_key != HEARTBEAT:
            raise KeyError
        if is_partitioned:
            arrived.set()
            await asyncio.Event().wait()
        return BrokerHeartbeatResponse(is_caught_up=True)

    async def scenario() -> None:
        nonlocal is_partitioned
        async with ScriptedBroker(script) as controller:
            link = ControllerLink(client_id="1", connect_timeout_ms=10_000)
            endpoint = Endpoint("CONTROLLER", "127.0.0.1", controller.port)
            abandoned = asyncio.ensure_future(
                link.request(endpoint, BrokerHeartbeatRequest(broker_id=1), timeout_ms=60_000)
            )
            await arrived.wait()
            abandoned.cancel()
            await asyncio.gather(abandoned, return_exceptions=True)
            is_partitioned = False
            response = await link.request(endpoint, BrokerHeartbeatRequest(broker_id=1), timeout_ms=60_000)
            assert isinstance(response, BrokerHeartbeatResponse)
            assert response.is_caught_up
            assert controller.connections == 2
            await link.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))
