"""Resources and operations as ``ruslo acl`` takes and prints them: ``topic:orders-*``, ``read``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ruslo.model.acls import Acl, Operation, PatternType, ResourceType

RESOURCES = "topic:NAME, group:NAME, cluster, transactional-id:NAME, delegation-token:ID or user:PRINCIPAL"


class Pattern(NamedTuple):
    type: ResourceType
    name: str
    pattern_type: PatternType


def parse_pattern(text: str, *, literal: bool = False) -> Pattern:
    """``*`` at the end of a name makes it a prefix, unless ``literal``; ``*`` alone is every name."""
    from ruslo.model.acls import CLUSTER_NAME, WILDCARD, PatternType, ResourceType

    kind, colon, name = text.partition(":")
    resource_type = ResourceType.__members__.get(kind.upper().replace("-", "_"))
    if resource_type in (None, ResourceType.ANY, ResourceType.UNKNOWN):
        raise ValueError(f"{text!r} is not a resource. Write {RESOURCES}")
    if resource_type is ResourceType.CLUSTER and not colon:
        name = CLUSTER_NAME
    if not name:
        raise ValueError(f"{text!r} has no name. Write {kind}:NAME, or {kind}:* for all")
    assert resource_type is not None
    if name.endswith(WILDCARD) and name != WILDCARD and not literal:
        return Pattern(resource_type, name[:-1], PatternType.PREFIXED)
    return Pattern(resource_type, name, PatternType.LITERAL)


def parse_operation(text: str) -> Operation:
    from ruslo.model.acls import Operation

    found = Operation.__members__.get(text.upper().replace("-", "_"))
    if found in (None, Operation.ANY, Operation.UNKNOWN):
        names = ", ".join(shown(each) for each in Operation if each > Operation.ANY)
        raise ValueError(f"{text!r} is not an operation. Use one of {names}")
    assert found is not None
    return found


def shown(value: Operation | ResourceType) -> str:
    return value.name.lower().replace("_", "-")


def resource_text(resource_type: int, name: str, pattern_type: int) -> str:
    from ruslo.model.acls import CLUSTER_NAME, PatternType, ResourceType

    kind = ResourceType(resource_type)
    if kind is ResourceType.CLUSTER and name == CLUSTER_NAME:
        return "cluster"
    return f"{shown(kind)}:{name}{'*' if pattern_type == PatternType.PREFIXED else ''}"


def acl_json(acl: Acl) -> dict[str, object]:
    from ruslo.model.acls import Operation, PatternType, Permission, ResourceType

    return {
        "principal": acl.principal,
        "permission": Permission(acl.permission).name,
        "operation": Operation(acl.operation).name,
        "resource_type": ResourceType(acl.resource_type).name,
        "resource_name": acl.resource_name,
        "pattern_type": PatternType(acl.pattern_type).name,
        "host": acl.host,
    }
