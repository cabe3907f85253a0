"""UpdateRaftVoter v0 (KIP-853): a voter reports its endpoints and supported versions to a new leader."""

from __future__ import annotations

from ruslo.broker.handlers.quorum_responses import foreign_cluster
from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.raft.rpc import UpdateVoterRequest
from ruslo.machines.raft.voters import Endpoint, Voter
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest
from ruslo.protocol.messages.update_raft_voter_response import CurrentLeader, UpdateRaftVoterResponse


async def handle(
    services: NodeServices, request: UpdateRaftVoterRequest, context: RequestContext
) -> UpdateRaftVoterResponse:
    if foreign_cluster(services, request.cluster_id):
        return UpdateRaftVoterResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    supported = request.kraft_version_feature
    result = await services.raft.handle_request(
        UpdateVoterRequest(
            request.current_leader_epoch,
            Voter(
                request.voter_id,
                request.voter_directory_id,
                tuple(Endpoint(at.name, at.host, at.port) for at in request.listeners),
                (supported.min_supported_version, supported.max_supported_version),
            ),
        )
    )
    response = UpdateRaftVoterResponse(error_code=result.error)
    response.current_leader = CurrentLeader(leader_id=result.leader_id, leader_epoch=result.epoch)
    if result.endpoint is not None:
        response.current_leader.host = result.endpoint.host
        response.current_leader.port = result.endpoint.port
    return response
