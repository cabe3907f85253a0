"""RemoveRaftVoter v0 (KIP-853): a controller is no longer to vote."""

from __future__ import annotations

from ruslo.broker.handlers.quorum_answers import foreign_cluster
from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.raft.rpc import RemoveVoterAsk, ReplicaKey, VoterChangeAnswer
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ruslo.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse


async def handle(
    services: NodeServices, request: RemoveRaftVoterRequest, context: RequestContext
) -> RemoveRaftVoterResponse:
    if foreign_cluster(services, request.cluster_id):
        return RemoveRaftVoterResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, error_message=None)
    answer = await services.raft.ask(RemoveVoterAsk(ReplicaKey(request.voter_id, request.voter_directory_id)))
    assert isinstance(answer, VoterChangeAnswer)
    return RemoveRaftVoterResponse(error_code=answer.error, error_message=answer.message)
