"""UpdateFeatures v0-2 (KIP-584): all of the updates or none.

v1 replaces "allow downgrade" by an upgrade type and adds validate-only (KIP-778); v2 drops the results.
"""

from __future__ import annotations

from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.controller.feature_image import KRAFT_VERSION
from ruslo.machines.raft.rpc import VoterChangeResponse
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.update_features_request import UpdateFeaturesRequest
from ruslo.protocol.messages.update_features_response import UpdateFeaturesResponse


async def handle(
    services: NodeServices, request: UpdateFeaturesRequest, context: RequestContext
) -> UpdateFeaturesResponse:
    response = UpdateFeaturesResponse()
    if _raises_kraft_version(services, request):
        response = await _upgrade_quorum(services, request, context)
    if not response.error_code:
        response = await _submit(services, request, context)
    await services.metadata.wait_for(services.controller.committed_offset)
    if context.api_version >= 2:
        response.results = []
    return response


def _raises_kraft_version(services: NodeServices, request: UpdateFeaturesRequest) -> bool:
    if request.validate_only or services.raft.leader_id != services.node_id:
        return False
    current = services.raft.kraft_version
    return any(
        each.feature == KRAFT_VERSION and each.max_version_level > current for each in request.feature_updates
    )


async def _submit(
    services: NodeServices, request: UpdateFeaturesRequest, context: RequestContext
) -> UpdateFeaturesResponse:
    response = await services.controller.submit(request, context, timeout_ms=request.timeout_ms)
    assert isinstance(response, UpdateFeaturesResponse)
    return response


async def _upgrade_quorum(
    services: NodeServices, request: UpdateFeaturesRequest, context: RequestContext
) -> UpdateFeaturesResponse:
    """The quorum raises kraft.version itself: a control record holds it, not a metadata record.

    It cannot be undone, so the controller must accept all updates first.
    """
    validation = UpdateFeaturesRequest(
        timeout_ms=request.timeout_ms, feature_updates=request.feature_updates, validate_only=True
    )
    response = await _submit(services, validation, context)
    if not response.error_code:
        result = await services.raft.upgrade_kraft_version()
        if result.error is not ErrorCode.NONE:
            message = result.message if isinstance(result, VoterChangeResponse) else None
            raise KafkaError(result.error, message)
    return response
