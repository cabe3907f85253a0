"""AlterClientQuotas v0-1 (KIP-546): rejected for each entity, because client quotas are not enforced."""

from __future__ import annotations

from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.model.errors import ErrorCode
from ruslo.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from ruslo.protocol.messages.alter_client_quotas_response import (
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
)

_NOT_SUPPORTED = "Client quotas are not supported: this broker would not enforce them. Leave them unset"


def handle(
    services: NodeServices, request: AlterClientQuotasRequest, context: RequestContext
) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            EntryData(
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                error_message=_NOT_SUPPORTED,
                entity=[
                    EntityData(entity_type=each.entity_type, entity_name=each.entity_name)
                    for each in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )
