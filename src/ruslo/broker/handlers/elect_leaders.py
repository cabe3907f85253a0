"""ElectLeaders v0-2 (KIP-460): elect preferred leaders or, from v1 on, unclean leaders. v2 is flexible.

v0 has no field for an error of the whole request, so each requested partition carries it.
"""

from __future__ import annotations

from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.model.errors import KafkaError
from ruslo.protocol.messages.elect_leaders_request import ElectLeadersRequest
from ruslo.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


async def handle(
    services: NodeServices, request: ElectLeadersRequest, context: RequestContext
) -> ElectLeadersResponse:
    try:
        response = await services.controller.submit(request, context, timeout_ms=request.timeout_ms)
    except KafkaError as error:
        return _failed(request, error, context.api_version)
    assert isinstance(response, ElectLeadersResponse)
    await services.metadata.wait_for(services.controller.committed_offset)
    return response


def _failed(request: ElectLeadersRequest, error: KafkaError, version: int) -> ElectLeadersResponse:
    response = ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=error.code, error_message=error.message)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or []
        ]
    )
    if version >= 1:
        response.error_code = error.code
    return response
