"""Forwarding a request while the active controller changes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import cast

from ruslo.broker.controller.gateway import ControllerGateway
from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.broker.quorum.raft import RaftDriver
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.requests.forwarding import envelope_response, open_envelope
from ruslo.machines.raft.voters import Endpoint
from ruslo.model.clock import SystemClock
from ruslo.protocol.message import Message
from ruslo.protocol.messages.envelope_request import EnvelopeRequest
from ruslo.protocol.messages.envelope_response import EnvelopeResponse
from ruslo.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ruslo.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from tests.support.brokers.scripted_broker import ReceivedRequest, ScriptedBroker, ScriptedResponse

OURS, OTHER = 1, 2
REQUEST = RemoveRaftVoterRequest(voter_id=OTHER)
CONTEXT = RequestContext(api_version=0)


@dataclass
class Election:
    """The leader as the raft driver reports it."""

    leader_id: int
    leader_endpoint: Endpoint | None
    node_id: int = OURS

    async def catch_up(self) -> None:
        """The metadata is already current."""


def removed(by: str) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(error_code=0, error_message=by)


def forwarded(responds_late: bool) -> Message:
    """The response when this node takes the leadership from the other controller during the request."""
    metadata = MetadataLoader()

    async def script(received: ReceivedRequest) -> ScriptedResponse:
        if received.api_key != EnvelopeRequest.API_KEY:
            raise KeyError
        assert isinstance(received.message, EnvelopeRequest)
        election.leader_id, election.leader_endpoint = OURS, None
        metadata.handle_leader_change(OURS, 2)
        await asyncio.sleep(0.01 if responds_late else 60)
        header, _, _ = open_envelope(received.message)
        return EnvelopeResponse(error_code=0, response_data=envelope_response(header, removed("remotely")))

    async def forward() -> Message:
        async with ScriptedBroker(script) as other:
            election.leader_endpoint = Endpoint("CONTROLLER", "127.0.0.1", other.port)
            gateway = ControllerGateway(
                None,
                lambda request, context: removed("locally"),
                cast(RaftDriver, election),
                metadata,
                SystemClock(),
                node_id=OURS,
                request_timeout_ms=30_000,
            )
            try:
                return await gateway.forward(REQUEST, CONTEXT)
            finally:
                await gateway.stop()

    election = Election(OTHER, None)
    return asyncio.run(asyncio.wait_for(forward(), 60))


def test_node_that_becomes_leader_serves_the_request_itself() -> None:
    assert forwarded(responds_late=False) == removed("locally")


def test_late_response_of_the_previous_controller_counts() -> None:
    assert forwarded(responds_late=True) == removed("remotely")
