"""ACLs as people write and read them: ``topic:orders-*``, ``read``, and the rules that they stand for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ruslo.model.acls import (
    CLUSTER_NAME,
    OPERATIONS,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from ruslo.model.principals import parse_principal

RESOURCES = "topic:NAME, group:NAME, cluster, transactional-id:NAME, delegation-token:ID or user:PRINCIPAL"


class Pattern(NamedTuple):
    type: ResourceType
    name: str
    pattern_type: PatternType


def parse_pattern(text: str, *, literal: bool = False) -> Pattern:
    """``*`` at the end of a name makes it a prefix, unless ``literal``; ``*`` alone is every name."""
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
    found = Operation.__members__.get(text.upper().replace("-", "_"))
    if found in (None, Operation.ANY, Operation.UNKNOWN):
        names = ", ".join(shown(each) for each in Operation if each > Operation.ANY)
        raise ValueError(f"{text!r} is not an operation. Use one of {names}")
    assert found is not None
    return found


def new_rules(
    permission: Permission, principal: str, operations: Iterable[str], pattern: Pattern, host: str = WILDCARD
) -> list[Acl]:
    """One rule per operation. Raises ValueError for an operation that the resource does not have."""
    parse_principal(principal)
    wanted = list(dict.fromkeys(parse_operation(each.strip()) for each in operations))
    valid = (*OPERATIONS[pattern.type], Operation.ALL)
    for each in wanted:
        if each not in valid:
            names = ", ".join(map(shown, valid))
            raise ValueError(f"{shown(pattern.type)} has no operation {shown(each)}. Use one of {names}")
    return [Acl(*pattern, principal, host, each, permission) for each in wanted]


def shown(value: Operation | ResourceType | Permission) -> str:
    return value.name.lower().replace("_", "-")


def resource_text(resource_type: int, name: str, pattern_type: int) -> str:
    kind = ResourceType(resource_type)
    if kind is ResourceType.CLUSTER and name == CLUSTER_NAME:
        return "cluster"
    return f"{shown(kind)}:{name}{'*' if pattern_type == PatternType.PREFIXED else ''}"


def acl_json(acl: Acl) -> dict[str, object]:
    return {
        "principal": acl.principal,
        "permission": Permission(acl.permission).name,
        "operation": Operation(acl.operation).name,
        "resource_type": ResourceType(acl.resource_type).name,
        "resource_name": acl.resource_name,
        "pattern_type": PatternType(acl.pattern_type).name,
        "host": acl.host,
    }
