"""AddRaftVoter v0-1 (KIP-853): add a controller that follows the metadata log to the voters.

v1 may be answered before the change is committed (KIP-1186).
"""

from __future__ import annotations

from ruslo.broker.handlers.quorum_responses import foreign_cluster
from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.raft.rpc import AddVoterRequest, VoterChangeResponse
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
            error_message=f"The voter lacks the listener {default_listener}, which the voters connect to",
        )
    endpoints.sort(key=lambda at: at.listener != default_listener)
    result = await services.raft.handle_request(
        AddVoterRequest(
            Voter(request.voter_id, request.voter_directory_id, tuple(endpoints)),
            timeout_ms=request.timeout_ms,
            ack_when_committed=request.ack_when_committed,
        )
    )
    assert isinstance(result, VoterChangeResponse)
    return AddRaftVoterResponse(error_code=result.error, error_message=result.message)
