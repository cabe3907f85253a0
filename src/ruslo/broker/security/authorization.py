"""The authorizer of this node: follows the ACLs in the metadata and decides about requests.

Each pair of principal and host has one ``PrincipalAccess``, which all of its connections share and which
remembers what was allowed. A change of ACLs makes all of them forget.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ruslo.broker.requests.access import OPEN, Access
from ruslo.machines.authorizer import Authorizer, Decision
from ruslo.model.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from ruslo.model.principals import Principal

if TYPE_CHECKING:
    from ruslo.broker.security.audit_log import AuditLog
    from ruslo.machines.controller.delta import MetadataDelta
    from ruslo.machines.controller.image import MetadataImage

logger = logging.getLogger(__name__)

MAX_REMEMBERED = 10_000
"""Decisions that are remembered for one principal."""


class PrincipalAccess:
    """The permissions of one principal from one host."""

    __slots__ = ("__weakref__", "_allowed", "_authorization", "host", "principal", "readable", "writable")

    def __init__(self, authorization: Authorization, principal: Principal, host: str) -> None:
        self._authorization = authorization
        self.principal = principal
        self.host = host
        self._allowed: set[tuple[Operation, ResourceType, str]] = set()
        self.readable: set[str | bytes] = set()
        self.writable: set[str | bytes] = set()

    def allows(
        self, operation: Operation, resource_type: ResourceType, name: str, api: str, audited: bool = True
    ) -> bool:
        key = (operation, resource_type, name)
        if key in self._allowed:
            return True
        if not self._authorization.decide(self, operation, resource_type, name, api, audited).allowed:
            return False
        if len(self._allowed) >= MAX_REMEMBERED:
            self.forget()
        self._allowed.add(key)
        return True

    def allows_any(self, operation: Operation, resource_type: ResourceType, api: str) -> bool:
        return self._authorization.decide_any(self, operation, resource_type, api).allowed

    def forget(self) -> None:
        """ACLs have changed: what was allowed may not be any more."""
        self._allowed.clear()
        self.readable.clear()
        self.writable.clear()


class Authorization:
    def __init__(
        self,
        authorizer: Authorizer,
        audit: AuditLog,
        on_failure: Callable[[str], None],
    ) -> None:
        """``on_failure`` stops the node: a rule that it cannot apply must not be ignored."""
        self._authorizer = authorizer
        self._audit = audit
        self._on_failure = on_failure
        self._accesses: WeakValueDictionary[tuple[Principal, str], PrincipalAccess] = WeakValueDictionary()

    def access(self, principal: Principal, host: str) -> PrincipalAccess:
        key = (principal, host)
        access = self._accesses.get(key)
        if access is None:
            access = self._accesses[key] = PrincipalAccess(self, principal, host)
        return access

    def acls(self, wanted: AclFilter) -> Iterator[Acl]:
        return self._authorizer.acls(wanted)

    def decide(
        self,
        access: PrincipalAccess,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        api: str,
        audited: bool,
    ) -> Decision:
        decision = self._authorizer.authorize(access.principal, access.host, operation, resource_type, name)
        if audited:
            self._audit.decided(access, operation, resource_type, name, api, decision)
        return decision

    def decide_any(
        self, access: PrincipalAccess, operation: Operation, resource_type: ResourceType, api: str
    ) -> Decision:
        decision = self._authorizer.authorize_any(access.principal, access.host, operation, resource_type)
        self._audit.decided(access, operation, resource_type, "*", api, decision)
        return decision

    def on_metadata_change(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if not delta.changed_acls:
            return
        for acl_id, before in delta.changed_acls.items():
            if before is not None:
                self._authorizer.remove(before)
            now = image.security.acls.get(acl_id)
            if now is not None:
                if _is_unknown(now):
                    self._on_failure(
                        f"the metadata holds an ACL that this release cannot apply ({now}): delete it with "
                        "the "
                        "release that created it"
                    )
                self._authorizer.add(now)
        for access in list(self._accesses.values()):
            access.forget()


def access_of(authorization: Authorization | None, principal: Principal, host: str) -> Access:
    return OPEN if authorization is None else authorization.access(principal, host)


def _is_unknown(acl: Acl) -> bool:
    return (
        ResourceType(acl.resource_type) in (ResourceType.UNKNOWN, ResourceType.ANY)
        or acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED)
        or Operation(acl.operation) in (Operation.UNKNOWN, Operation.ANY)
        or acl.permission not in (Permission.ALLOW, Permission.DENY)
    )
