"""AlterClientQuotas: which quotas of users, client ids and addresses are written (KIP-546)."""

from __future__ import annotations

import math
from typing import Final

from ruslo.machines.controller.records import VersionedRecord
from ruslo.machines.controller.security_image import quota_entity
from ruslo.machines.controller.state import ControllerState, Decision, check_record_count
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from ruslo.protocol.messages.alter_client_quotas_request import EntryData as Alteration
from ruslo.protocol.messages.alter_client_quotas_response import (
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
)
from ruslo.protocol.messages.client_quota_record import ClientQuotaRecord
from ruslo.protocol.messages.client_quota_record import EntityData as RecordEntity

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

_LONG_MAX = 2**63 - 1
_INT_MAX = 2**31 - 1
_FRACTION = 1e-6
CLIENT_QUOTAS: Final[dict[str, int | None]] = {
    "producer_byte_rate": _LONG_MAX,
    "consumer_byte_rate": _LONG_MAX,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
"""The quotas of users and client ids; the largest value of those that are whole numbers."""
IP_QUOTAS: Final[dict[str, int | None]] = {"connection_creation_rate": _INT_MAX}


def alter_client_quotas(
    state: ControllerState, request: AlterClientQuotasRequest
) -> Decision[AlterClientQuotasResponse]:
    records: list[VersionedRecord] = []
    entries: list[EntryData] = []
    seen: set[tuple[tuple[str, str | None], ...]] = set()
    for alteration in request.entries:
        entry = EntryData(
            error_message=None,
            entity=[
                EntityData(entity_type=each.entity_type, entity_name=each.entity_name)
                for each in alteration.entity
            ],
        )
        try:
            names = _names(alteration)
            entity = quota_entity(names)
            if entity in seen:
                raise _invalid("The entity is in the request more than once. Send one entry per entity")
            seen.add(entity)
            records += _records(state, names, alteration)
        except KafkaError as error:
            entry.error_code, entry.error_message = error.code, error.message
        entries.append(entry)
    check_record_count(len(records))
    return ([] if request.validate_only else records), AlterClientQuotasResponse(entries=entries)


def _names(alteration: Alteration) -> dict[str, str | None]:
    names: dict[str, str | None] = {}
    for each in alteration.entity:
        if each.entity_type not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Entity type {each.entity_type!r} is unknown. Use {USER}, {CLIENT_ID} or {IP}")
        if each.entity_type in names:
            raise _invalid(f"The entity names {each.entity_type} twice. Name each type once")
        if each.entity_name == "":
            raise _invalid(f"The name of the {each.entity_type} is empty. Use null for the default")
        names[each.entity_type] = each.entity_name
    if not names:
        raise _invalid("The entity is empty. Name a user, a client id, both, or an IP address")
    if IP in names and len(names) > 1:
        raise _invalid("Invalid quota entity combination: an IP address cannot have a user or a client id")
    return names


def _records(
    state: ControllerState, names: dict[str, str | None], alteration: Alteration
) -> list[VersionedRecord]:
    allowed = IP_QUOTAS if IP in names else CLIENT_QUOTAS
    current = state.image.security.quotas.get(quota_entity(names), {})
    keys = [op.key for op in alteration.ops]
    if len(set(keys)) < len(keys):
        raise _invalid("A quota is altered twice for one entity. Send one change per quota")
    records: list[VersionedRecord] = []
    for op in alteration.ops:
        if op.remove:
            if op.key in current:
                records.append((_record(names, op.key, remove=True), 0))
            continue
        _check_value(allowed, op.key, op.value)
        if op.key not in current or current[op.key].value != op.value:
            records.append((_record(names, op.key, value=op.value), 0))
    return records


def _record(
    names: dict[str, str | None], key: str, *, value: float = 0.0, remove: bool = False
) -> ClientQuotaRecord:
    entity = [RecordEntity(entity_type=kind, entity_name=name) for kind, name in names.items()]
    return ClientQuotaRecord(entity=entity, key=key, value=value, remove=remove)


def _check_value(allowed: dict[str, int | None], key: str, value: float) -> None:
    if key not in allowed:
        raise _invalid(f"Unknown quota {key!r} for this entity. Use one of {', '.join(allowed)}")
    largest = allowed[key]
    # Written so that NaN, which compares false with everything, is invalid.
    if not value > 0 or math.isinf(value):
        raise _invalid(f"Quota {key} must be greater than 0. Remove it for no limit")
    if largest is not None and (value > largest or abs(value % 1.0) > _FRACTION):
        raise _invalid(f"Quota {key} must be a whole number up to {largest}")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
