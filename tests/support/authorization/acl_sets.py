"""ACL sets for the names of ``names``."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ruslo.model.acls import (
    CLUSTER_NAME,
    OPERATIONS,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tests.support.authorization.names import (
    ABSENT,
    ABSENT_GROUP,
    ABSENT_TRANSACTIONAL_ID,
    DOOMED,
    GROUPS,
    INTERNAL,
    LIVE_GROUP,
    OPEN_TRANSACTION,
    SHARE_GROUP,
    TOPICS,
    TRANSACTIONAL_IDS,
)

LITERALS = {
    ResourceType.TOPIC: (*TOPICS, *ABSENT, *DOOMED, INTERNAL, WILDCARD),
    ResourceType.GROUP: (*GROUPS, LIVE_GROUP, SHARE_GROUP, ABSENT_GROUP, WILDCARD),
    ResourceType.CLUSTER: (CLUSTER_NAME,),
    ResourceType.TRANSACTIONAL_ID: (*TRANSACTIONAL_IDS, OPEN_TRANSACTION, ABSENT_TRANSACTIONAL_ID, WILDCARD),
    ResourceType.DELEGATION_TOKEN: (WILDCARD,),
    ResourceType.USER: (WILDCARD, "User:alice", "User:bob", "User:carol", "User:admin"),
}
PREFIXES = {
    ResourceType.TOPIC: ("orders", "o", "O", "orders.", "pay", "doom", "absent", "__", "orders.eu-"),
    ResourceType.GROUP: ("bill", "billing", "billing-", "s", "shop-"),
    ResourceType.CLUSTER: (),
    ResourceType.TRANSACTIONAL_ID: ("t", "tx", "tx-", "lo"),
    ResourceType.DELEGATION_TOKEN: (),
    ResourceType.USER: ("User:", "User:a"),
}


def acl_set(random: Random, users: Sequence[str], number: int) -> list[Acl]:
    """The first set is empty, the second allows everything to the first user; the others are random."""
    if number == 0:
        return []
    rules = {acl for user in users for acl in _rules(random, user)}
    if number == 1:
        first = f"User:{users[0]}"
        rules = {acl for acl in rules if acl.principal not in (first, WILDCARD_PRINCIPAL)}
        rules |= {_everything(kind, first) for kind in ResourceType if kind in LITERALS}
    return sorted(rules)


def _everything(kind: ResourceType, principal: str) -> Acl:
    return _everywhere(kind, principal, Operation.ALL)


def _everywhere(kind: ResourceType, principal: str, operation: Operation) -> Acl:
    name = CLUSTER_NAME if kind is ResourceType.CLUSTER else WILDCARD
    return Acl(kind, name, PatternType.LITERAL, principal, WILDCARD, operation, Permission.ALLOW)


def _rules(random: Random, user: str) -> list[Acl]:
    """Half of the operations of most types everywhere, and rules for single names."""
    principal = f"User:{user}"
    denying = random.choice([0.0, 0.1, 0.4])
    rules = [_rule(random, user, denying) for _ in range(random.choice([1, 5, 15, 40]))]
    for kind, operations in OPERATIONS.items():
        pick = random.random()
        if pick < 0.1:
            rules.append(_everything(kind, principal))
        elif pick < 0.8:
            rules += [_everywhere(kind, principal, each) for each in operations if random.random() < 0.5]
    return rules


def _rule(random: Random, user: str, denying: float) -> Acl:
    kind = random.choice(tuple(LITERALS))
    prefixed = bool(PREFIXES[kind]) and random.random() < 0.3
    return Acl(
        kind,
        random.choice(PREFIXES[kind] if prefixed else LITERALS[kind]),
        PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        WILDCARD_PRINCIPAL if random.random() < 0.1 else f"User:{user}",
        random.choice([WILDCARD, WILDCARD, WILDCARD, "127.0.0.1", "10.0.0.9"]),
        random.choice([Operation.ALL, *OPERATIONS[kind]]),
        Permission.DENY if random.random() < denying else Permission.ALLOW,
    )
