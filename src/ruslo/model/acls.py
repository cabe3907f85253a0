"""Access control lists: Kafka's enums, one rule (``Acl``) and the filter that finds rules."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

WILDCARD: Final = "*"
"""As the name of a literal resource: any resource of its type. As a host: any host."""
CLUSTER_NAME: Final = "kafka-cluster"
WILDCARD_PRINCIPAL: Final = "User:*"


class ResourceType(enum.IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7

    @classmethod
    def _missing_(cls, value: object) -> ResourceType:
        return cls.UNKNOWN


class PatternType(enum.IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    """In a filter: every pattern that applies to the named resource."""
    LITERAL = 3
    PREFIXED = 4

    @classmethod
    def _missing_(cls, value: object) -> PatternType:
        return cls.UNKNOWN


class Operation(enum.IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15

    @classmethod
    def _missing_(cls, value: object) -> Operation:
        return cls.UNKNOWN


class Permission(enum.IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3

    @classmethod
    def _missing_(cls, value: object) -> Permission:
        return cls.UNKNOWN


_O = Operation
OPERATIONS: Final = {
    ResourceType.TOPIC: (
        _O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ResourceType.CLUSTER: (
        _O.CREATE, _O.ALTER, _O.DESCRIBE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS,
        _O.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (_O.WRITE, _O.DESCRIBE, _O.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (_O.DESCRIBE,),
    ResourceType.USER: (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
}  # fmt: skip
"""The operations that a resource of each type has."""


class Acl(NamedTuple):
    """One rule: whether a principal may perform an operation, from a host, on the resources of a pattern."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    def __str__(self) -> str:
        name = self.resource_name + ("*" if self.pattern_type == PatternType.PREFIXED else "")
        return (
            f"{Permission(self.permission).name} {self.principal} "
            f"{Operation(self.operation).name} on {ResourceType(self.resource_type).name} {name} "
            f"from {'any host' if self.host == WILDCARD else self.host}"
        )


class AclFilter(NamedTuple):
    """Finds rules. None, or ANY, matches every value."""

    resource_type: int = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission: int = Permission.ANY

    @property
    def is_unknown(self) -> bool:
        """Whether it has a value that this version of the protocol does not know."""
        return ResourceType.UNKNOWN in (
            ResourceType(self.resource_type),
            PatternType(self.pattern_type),
            Operation(self.operation),
            Permission(self.permission),
        )

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.resource_name is None or self.resource_name == acl.resource_name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.PREFIXED:
            return self.resource_name.startswith(acl.resource_name)
        return acl.resource_name == WILDCARD
