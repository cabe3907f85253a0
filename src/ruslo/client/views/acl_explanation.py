"""Explains which ACL decides whether a principal may perform an operation, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ruslo.client.views.acl_text import Pattern
from ruslo.machines.authorizer import Authorizer, Decision
from ruslo.model.acls import (
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from ruslo.model.principals import Principal

NOT_VISIBLE = (
    "Clients do not see super.users, which may do everything, nor allow.everyone.if.no.acl.found: check both "
    "in the brokers' property files."
)


class Explanation(NamedTuple):
    decision: Decision
    reasons: list[str]
    """Sentences, the most important one first."""


def explain(
    acls: Sequence[Acl], principal: Principal, host: str, operation: Operation, pattern: Pattern
) -> Explanation:
    """What the ACLs decide, as the cluster's authorizer would."""
    decision = _decide(acls, principal, host, operation, pattern)
    rule = decision.rule
    if isinstance(rule, str):
        covering = AclFilter(pattern.type, pattern.name, PatternType.MATCH)
        others = sum(map(covering.matches, acls))
        count = "no ACL covers" if others == 0 else f"{others} ACLs cover"
        reasons = [f"No ACL allows it: {count} the resource, and without one that applies it is denied."]
    else:
        reasons = [f"This ACL decides: {rule}."]
        if decision.allowed and rule.operation == Operation.ALL:
            reasons.append("ALL includes every operation.")
        elif decision.allowed and rule.operation != operation:
            reasons.append(f"{Operation(rule.operation).name} includes {operation.name}.")
        if not decision.allowed:
            allowing = [each for each in acls if each.permission != Permission.DENY]
            without_deny = _decide(allowing, principal, host, operation, pattern)
            if without_deny.allowed:
                reasons.append(f"DENY takes precedence over this ACL: {without_deny.rule}.")
    if host == WILDCARD and any(each.host != WILDCARD for each in acls):
        reasons.append(
            "ACLs of single hosts were left out. Set the host to the client's address to include them."
        )
    return Explanation(decision, [*reasons, NOT_VISIBLE])


def _decide(
    acls: Sequence[Acl], principal: Principal, host: str, operation: Operation, pattern: Pattern
) -> Decision:
    authorizer = Authorizer()
    for rule in acls:
        authorizer.add(rule)
    found = authorizer.authorize(principal, host, operation, pattern.type, pattern.name)
    if operation == Operation.IDEMPOTENT_WRITE and isinstance(found.rule, str):
        # Every producer that may write to a topic may be idempotent.
        by_topic = authorizer.authorize_any(principal, host, Operation.WRITE, ResourceType.TOPIC)
        return by_topic if by_topic.allowed else found
    return found
