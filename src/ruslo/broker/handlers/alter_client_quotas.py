"""AlterClientQuotas v0-1 (KIP-546) on the controller: the quotas of users, client ids and addresses.

The controller machine does no I/O, so host names are looked up here. A name without an address is rejected,
as in Apache Kafka: its quota would have no effect.
"""

from __future__ import annotations

from ruslo.broker.handlers import controller_changes
from ruslo.broker.handlers.services import ControllerServices
from ruslo.broker.requests.context import RequestContext
from ruslo.machines.quota import IP
from ruslo.model.errors import ErrorCode
from ruslo.net.host_lookup import is_address, look_up
from ruslo.protocol.message import Message
from ruslo.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from ruslo.protocol.messages.alter_client_quotas_request import EntryData as Alteration
from ruslo.protocol.messages.alter_client_quotas_response import (
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
)

LOOKUP_TIMEOUT_S = 5.0


async def handle(
    services: ControllerServices, request: AlterClientQuotasRequest, context: RequestContext
) -> Message:
    names = {name for entry in request.entries for name in _host_names(entry)}
    if not names:
        return await controller_changes.handle(services, request, context)
    addresses = await look_up(names, LOOKUP_TIMEOUT_S)
    accepted: list[Alteration] = []
    rejected: list[EntryData] = []
    for entry in request.entries:
        unknown = [name for name in _host_names(entry) if not addresses[name]]
        if unknown:
            rejected.append(_rejected(entry, unknown[0]))
        else:
            accepted.append(entry)
    response = AlterClientQuotasResponse(entries=[])
    if accepted:
        change = AlterClientQuotasRequest(entries=accepted, validate_only=request.validate_only)
        decided = await controller_changes.handle(services, change, context)
        assert isinstance(decided, AlterClientQuotasResponse)
        response = decided
    response.entries += rejected
    return response


def _host_names(entry: Alteration) -> list[str]:
    """The host names that need a lookup; an invalid entity is left to the machine."""
    if len(entry.entity) != 1:
        return []
    return [
        each.entity_name
        for each in entry.entity
        if each.entity_type == IP and each.entity_name and not is_address(each.entity_name)
    ]


def _rejected(entry: Alteration, name: str) -> EntryData:
    return EntryData(
        error_code=ErrorCode.INVALID_REQUEST,
        error_message=f"{name} is not a valid IP or resolvable host. Correct the name, or use the address",
        entity=[
            EntityData(entity_type=each.entity_type, entity_name=each.entity_name) for each in entry.entity
        ],
    )
