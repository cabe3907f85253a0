"""Decides what a principal may do, by the rules of Kafka's StandardAuthorizer.

* ``super.users`` may do everything.
* A rule applies if its pattern covers the resource, and principal, host and operation match.
* DENY takes precedence over ALLOW. ALLOW of READ, WRITE, DELETE or ALTER includes DESCRIBE; ALLOW of
  ALTER_CONFIGS includes DESCRIBE_CONFIGS. DENY includes nothing.
* Without an applicable rule the operation is denied, except that ``allow.everyone.if.no.acl.found`` allows it
  if no rule covers the resource at all.

Rules are kept by the name of their pattern. Those that cover a name are found under the name itself, under
``*``, and under each of its prefixes whose length occurs among the prefixed patterns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from ruslo.model.acls import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from ruslo.model.hosts import canonical_host
from ruslo.model.principals import Principal

_INCLUDE_DESCRIBE = (
    Operation.DESCRIBE,
    Operation.READ,
    Operation.WRITE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.ALL,
)
_INCLUDE_DESCRIBE_CONFIGS = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL)

SUPER_USER = "super user"
NO_ACL_FOUND = "no ACL covers the resource (allow.everyone.if.no.acl.found)"
DEFAULT_DENY = "no ACL allows it"


class Decision(NamedTuple):
    allowed: bool
    rule: Acl | str
    """The ACL that decided, or why none had to."""


class _ResourceRules:
    """The rules of one type of resource."""

    __slots__ = ("_prefix_lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, Counter[Acl]] = {}
        self.prefixed: dict[str, Counter[Acl]] = {}
        self._prefix_lengths: Counter[int] = Counter()

    def add(self, acl: Acl) -> None:
        rules = self._of(acl.pattern_type).setdefault(acl.resource_name, Counter())
        if not rules and acl.pattern_type == PatternType.PREFIXED:
            self._prefix_lengths[len(acl.resource_name)] += 1
        rules[acl] += 1

    def remove(self, acl: Acl) -> None:
        by_name = self._of(acl.pattern_type)
        rules = by_name[acl.resource_name]
        rules[acl] -= 1
        if not rules[acl]:
            del rules[acl]
        if not rules:
            del by_name[acl.resource_name]
            if acl.pattern_type == PatternType.PREFIXED:
                length = len(acl.resource_name)
                self._prefix_lengths[length] -= 1
                if not self._prefix_lengths[length]:
                    del self._prefix_lengths[length]

    def _of(self, pattern_type: int) -> dict[str, Counter[Acl]]:
        return self.prefixed if pattern_type == PatternType.PREFIXED else self.literal

    def covering(self, name: str) -> Iterator[Acl]:
        """The rules whose pattern covers the resource with this name."""
        yield from self.literal.get(name, ())
        if name != WILDCARD:
            yield from self.literal.get(WILDCARD, ())
        for length in self._prefix_lengths:
            if length <= len(name):
                yield from self.prefixed.get(name[:length], ())


class Authorizer:
    def __init__(
        self, super_users: Collection[Principal] = (), *, allow_everyone_if_no_acl_found: bool = False
    ) -> None:
        self._super_users = frozenset(super_users)
        self._default = (
            Decision(True, NO_ACL_FOUND) if allow_everyone_if_no_acl_found else Decision(False, DEFAULT_DENY)
        )
        self._rules: dict[int, _ResourceRules] = {}

    def add(self, acl: Acl) -> None:
        self._rules.setdefault(acl.resource_type, _ResourceRules()).add(acl)

    def remove(self, acl: Acl) -> None:
        self._rules[acl.resource_type].remove(acl)

    def acls(self, wanted: AclFilter) -> Iterator[Acl]:
        types: Iterable[int] = (
            self._rules if wanted.resource_type == ResourceType.ANY else (wanted.resource_type,)
        )
        for resource_type in types:
            rules = self._rules.get(resource_type, _NO_RULES)
            for by_name in (rules.literal, rules.prefixed):
                for acls in by_name.values():
                    yield from filter(wanted.matches, acls)

    def is_super_user(self, principal: Principal) -> bool:
        return principal.base in self._super_users

    def authorize(
        self, principal: Principal, host: str, operation: Operation, resource_type: int, name: str
    ) -> Decision:
        if self.is_super_user(principal):
            return Decision(True, SUPER_USER)
        named = str(principal)
        allowing: Acl | None = None
        covered = False
        for acl in self._rules.get(resource_type, _NO_RULES).covering(name):
            covered = True
            if acl.principal not in (named, WILDCARD_PRINCIPAL) or not _is_from(acl, host):
                continue
            if acl.permission == Permission.ALLOW:
                if allowing is None and _includes(acl.operation, operation):
                    allowing = acl
            elif acl.operation in (Operation.ALL, operation):
                return Decision(False, acl)
        if allowing is not None:
            return Decision(True, allowing)
        return Decision(False, DEFAULT_DENY) if covered else self._default

    def authorize_any(
        self, principal: Principal, host: str, operation: Operation, resource_type: int
    ) -> Decision:
        """Whether the operation is allowed on at least one resource of the type, existing or not."""
        some_name = self.authorize(principal, host, operation, resource_type, "hardcode")
        if some_name.allowed:
            return some_name
        rules = self._rules.get(resource_type, _NO_RULES)
        named = str(principal)

        def applicable(by_name: dict[str, Counter[Acl]], permission: Permission) -> dict[str, Acl]:
            return {
                name: acl
                for name, acls in by_name.items()
                for acl in acls
                if acl.permission == permission
                and acl.principal in (named, WILDCARD_PRINCIPAL)
                and _is_from(acl, host)
                and acl.operation in (Operation.ALL, operation)
            }

        denied = applicable(rules.literal, Permission.DENY)
        if WILDCARD in denied:
            return Decision(False, denied[WILDCARD])
        allowed = applicable(rules.literal, Permission.ALLOW)
        if WILDCARD in allowed:
            return Decision(True, allowed[WILDCARD])
        denied_prefixes = applicable(rules.prefixed, Permission.DENY)
        candidates = [(name, acl) for name, acl in allowed.items() if name not in denied]
        for name, acl in [*candidates, *applicable(rules.prefixed, Permission.ALLOW).items()]:
            if not any(name[:length] in denied_prefixes for length in range(1, len(name) + 1)):
                return Decision(True, acl)
        return Decision(False, DEFAULT_DENY)


_NO_RULES = _ResourceRules()


def _is_from(acl: Acl, host: str) -> bool:
    """Whether the rule applies to clients from this host."""
    return acl.host in (WILDCARD, host) or (
        ":" in acl.host and canonical_host(acl.host) == canonical_host(host)
    )


def _includes(granted: int, operation: Operation) -> bool:
    if operation == Operation.DESCRIBE:
        return granted in _INCLUDE_DESCRIBE
    if operation == Operation.DESCRIBE_CONFIGS:
        return granted in _INCLUDE_DESCRIBE_CONFIGS
    return granted in (operation, Operation.ALL)
