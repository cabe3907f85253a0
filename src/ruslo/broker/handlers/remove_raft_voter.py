"""RemoveRaftVoter v0 (KIP-853): remove a controller from the voters."""

from __future__ import annotations

from ruslo.broker.handlers.quorum_responses import foreign_cluster
from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.raft.rpc import RemoveVoterRequest, ReplicaKey, VoterChangeResponse
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ruslo.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse


async def handle(
    services: NodeServices, request: RemoveRaftVoterRequest, context: RequestContext
) -> RemoveRaftVoterResponse:
    if foreign_cluster(services, request.cluster_id):
        return RemoveRaftVoterResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, error_message=None)
    result = await services.raft.handle_request(
        RemoveVoterRequest(ReplicaKey(request.voter_id, request.voter_directory_id))
    )
    assert isinstance(result, VoterChangeResponse)
    return RemoveRaftVoterResponse(error_code=result.error, error_message=result.message)
