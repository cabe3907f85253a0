"""OffsetFetch v1-10: the committed offsets of groups. Null topics request all topics with offsets.

v5: leader epochs (KIP-320). v7: RequireStable (KIP-447). v8: several groups (KIP-709). v9: member id and
epoch of the new protocol (KIP-848). v10: topic ids (KIP-516).
"""

from __future__ import annotations

from ruslo.broker.coordinators.runtime.fan_out import all_responses, by_partition
from ruslo.broker.handlers.services import Response, Services
from ruslo.broker.requests.context import RequestContext
from ruslo.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from ruslo.protocol.messages.offset_fetch_response import OffsetFetchResponse

BATCHED_MIN_VERSION = 8


def handle(services: Services, request: OffsetFetchRequest, context: RequestContext) -> Response:
    if context.api_version < BATCHED_MIN_VERSION:
        return services.groups.submit(request.group_id, request, context)
    if len(request.groups) == 1:
        return services.groups.submit(request.groups[0].group_id, request, context)
    return _fetch_each(services, request, context)


async def _fetch_each(
    services: Services, request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponse:
    groups = services.groups
    parts = by_partition(groups, request.groups, _group_id)
    responses = await all_responses(
        [
            groups.submit_to(
                partition, OffsetFetchRequest(groups=part, require_stable=request.require_stable), context
            )
            for partition, part in parts.items()
        ],
        OffsetFetchResponse,
    )
    return OffsetFetchResponse(groups=[group for response in responses for group in response.groups])


def _group_id(group: OffsetFetchRequestGroup) -> str:
    return group.group_id
