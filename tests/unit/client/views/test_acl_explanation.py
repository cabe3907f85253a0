from __future__ import annotations

import pytest

from ruslo.client.views.acl_explanation import explain
from ruslo.client.views.acl_text import Pattern
from ruslo.model.acls import Acl, Operation, PatternType, Permission, ResourceType
from ruslo.model.principals import Principal

ALICE = Principal("User", "alice")
ORDERS = Pattern(ResourceType.TOPIC, "orders", PatternType.LITERAL)
CLUSTER = Pattern(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL)


def rule(operation: Operation, permission: Permission = Permission.ALLOW, host: str = "*") -> Acl:
    return Acl(*ORDERS, "User:alice", host, operation, permission)


@pytest.mark.parametrize(
    ("acls", "operation", "allowed", "reason"),
    [
        ([], Operation.READ, False, "no ACL covers the resource"),
        ([rule(Operation.WRITE)], Operation.READ, False, "1 ACLs cover the resource"),
        ([rule(Operation.READ)], Operation.READ, True, "This ACL decides: ALLOW User:alice READ"),
        ([rule(Operation.READ)], Operation.DESCRIBE, True, "READ includes DESCRIBE"),
        ([rule(Operation.ALL)], Operation.DELETE, True, "ALL includes every operation"),
        (
            [rule(Operation.READ), rule(Operation.ALL, Permission.DENY)],
            Operation.READ,
            False,
            "DENY takes precedence over this ACL: ALLOW User:alice READ",
        ),
        ([rule(Operation.READ, host="10.0.0.7")], Operation.READ, False, "Set the host"),
    ],
)
def test_the_rule_that_decides(acls: list[Acl], operation: Operation, allowed: bool, reason: str) -> None:
    decision, reasons = explain(acls, ALICE, "*", operation, ORDERS)
    assert decision.allowed is allowed
    assert any(reason in each for each in reasons), reasons
    assert "super.users" in reasons[-1]


def test_a_producer_that_may_write_to_a_topic_may_be_idempotent() -> None:
    decision, _ = explain([rule(Operation.WRITE)], ALICE, "*", Operation.IDEMPOTENT_WRITE, CLUSTER)
    assert decision.allowed
