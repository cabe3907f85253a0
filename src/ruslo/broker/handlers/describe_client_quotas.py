"""DescribeClientQuotas v0-1 (KIP-546): the quotas that match a filter."""

from __future__ import annotations

from collections.abc import Iterable

from ruslo.broker.handlers.services import NodeServices
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.controller.security_image import QuotaEntity
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from ruslo.protocol.messages.describe_client_quotas_response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

_USER, _CLIENT_ID, _IP = "user", "client-id", "ip"
_EXACT, _DEFAULT, _SPECIFIED = range(3)
"""The match types of a filter component."""


def handle(
    services: NodeServices, request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    try:
        _check_filter(request.components)
    except KafkaError as error:
        # Null entries tell clients that the request failed as a whole.
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    entries = [
        EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            values=[ValueData(key=key, value=record.value) for key, record in values.items()],
        )
        for entity, values in services.metadata.image.security.quotas.items()
        if _matches(entity, request)
    ]
    return DescribeClientQuotasResponse(error_message=None, entries=entries)


def _check_filter(components: Iterable[ComponentData]) -> None:
    seen: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind or kind in seen:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"entity type {kind!r} is {'repeated' if kind else 'empty'}: name each entity type once",
            )
        seen.add(kind)
        if kind not in (_USER, _CLIENT_ID, _IP):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"entity type {kind!r} is unknown: use {_USER}, {_CLIENT_ID} or {_IP}",
            )
        if component.match_type not in (_EXACT, _DEFAULT, _SPECIFIED):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"match type {component.match_type} is unknown: use 0 (exact), 1 (default), 2 (any)",
            )
        if (component.match_type == _EXACT) == (component.match is None):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"match type {component.match_type} of {kind} "
                f"{'needs' if component.match is None else 'must not have'} a name to match",
            )
    if _IP in seen and len(seen) > 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid entity filter component combination: {_IP} cannot be combined with {_USER} or "
            f"{_CLIENT_ID}. Request it alone",
        )


def _matches(entity: QuotaEntity, request: DescribeClientQuotasRequest) -> bool:
    names = dict(entity)
    if request.strict and len(names) != len(request.components):
        return False
    return all(
        component.entity_type in names
        and (component.match_type == _SPECIFIED or names[component.entity_type] == component.match)
        for component in request.components
    )
