"""UpdateFeatures v0-2 (KIP-584): all of the updates or none.

v1 replaces "allow downgrade" by an upgrade type and adds validate-only (KIP-778); v2 drops the results.
"""

from __future__ import annotations

from ruslo.broker.request_context import RequestContext
from ruslo.broker.services import NodeServices
from ruslo.machines.controller.feature_image import KRAFT_VERSION
from ruslo.machines.raft.rpc import VoterChangeAnswer
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.update_features_request import UpdateFeaturesRequest
from ruslo.protocol.messages.update_features_response import UpdateFeaturesResponse


async def handle(
    services: NodeServices, request: UpdateFeaturesRequest, context: RequestContext
) -> UpdateFeaturesResponse:
    if not request.validate_only and services.raft.leader_id == services.node_id:
        await _upgrade_quorum(services, request)
    response = await services.controller.submit(request, context, timeout_ms=request.timeout_ms)
    assert isinstance(response, UpdateFeaturesResponse)
    await services.metadata.wait_for(services.controller.committed_offset)
    if context.api_version >= 2:
        response.results = []
    return response


async def _upgrade_quorum(services: NodeServices, request: UpdateFeaturesRequest) -> None:
    """kraft.version is the quorum's own affair: no metadata record holds it, but the voters' records do."""
    for update in request.feature_updates:
        if update.feature == KRAFT_VERSION and update.max_version_level > services.raft.kraft_version:
            answer = await services.raft.upgrade_kraft_version()
            if answer.error is not ErrorCode.NONE:
                message = answer.message if isinstance(answer, VoterChangeAnswer) else None
                raise KafkaError(answer.error, message)
