"""AddRaftVoter v0-1 (KIP-853): a controller that follows the metadata log is to vote.

v1 can be answered before the change is committed (KIP-1186).
"""

from __future__ import annotations

from ruslo.broker.handlers.quorum_answers import foreign_cluster
from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.raft.rpc import AddVoterAsk, VoterChangeAnswer
from ruslo.machines.raft.voters import Endpoint, Voter
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from ruslo.protocol.messages.add_raft_voter_response import AddRaftVoterResponse


async def handle(
    services: NodeServices, request: AddRaftVoterRequest, context: RequestContext
) -> AddRaftVoterResponse:
    if foreign_cluster(services, request.cluster_id):
        return AddRaftVoterResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, error_message=None)
    default_listener = services.config.controller_listener_names[0]
    endpoints = [Endpoint(at.name, at.host, at.port) for at in request.listeners]
    if default_listener not in (at.listener for at in endpoints):
        return AddRaftVoterResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"the voter has no listener named {default_listener}, where others would reach it",
        )
    endpoints.sort(key=lambda at: at.listener != default_listener)
    answer = await services.raft.ask(
        AddVoterAsk(
            Voter(request.voter_id, request.voter_directory_id, tuple(endpoints)),
            timeout_ms=request.timeout_ms,
            ack_when_committed=request.ack_when_committed,
        )
    )
    assert isinstance(answer, VoterChangeAnswer)
    return AddRaftVoterResponse(error_code=answer.error, error_message=answer.message)
