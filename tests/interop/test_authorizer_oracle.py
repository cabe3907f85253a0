"""The authorizer's decisions compared with Kafka's own StandardAuthorizer, on generated ACL sets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import pytest

from ruslo.machines.authorizer import Authorizer
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
from ruslo.model.principals import Principal
from tests.interop.oracle import JavaOracle

SETS_PER_SEED = 400
REQUESTS_PER_SET = 60
SUPER_USERS = (Principal("User", "admin"), Principal("User", "CN=Admin, O=Ex:ample"))

# Names that share prefixes, differ in case, look like a pattern, or are not ASCII. Left out are names that
# begin with "*", which Kafka's wildcard does not cover, or with a character before "*" in ASCII, as "#":
# with some ACLs on such names Kafka's search does not end.
NAMES = (
    "o", "or", "orders", "orders.", "orders.eu", "orders.eu-1", "Orders", "ORDERS", "orderz", "ordess",
    "p", "payments", "payment", "paymentz", "*", "hardcode", "hard", "~", "-", "_", "__",
    "__consumer_offsets", "a" * 249, "a" * 248, "é", "éa", "e\u0301", "ß", "SS", "ss", "中文", "中", "😀",
    "😀x", "😁", "\uffee", "User:alice", "User:bob", "User:", "User:*", CLUSTER_NAME, "kafka-",
    "kafka-cluster-2",
)  # fmt: skip
PRINCIPALS = (
    Principal("User", "alice"),
    Principal("User", "Alice"),
    Principal("User", "alic"),
    Principal("User", "CN=Alice, OU=a:b"),
    Principal("User", "élise"),
    Principal("Group", "alice"),
    Principal("User", "alice", token_authenticated=True),
    *SUPER_USERS,
)
HOSTS = ("10.0.0.1", "10.0.0.11", "127.0.0.1", "0:0:0:0:0:0:0:1")
TYPES = tuple(OPERATIONS)
# An authorizer accepts every operation on every type of resource, also those that no API uses.
ALL_OPERATIONS = tuple(each for each in Operation if each > Operation.ANY)


class Query(NamedTuple):
    principal: Principal
    host: str
    operation: Operation
    resource_type: ResourceType
    name: str | None
    """None: at least one resource of the type."""


@pytest.fixture(scope="module")
def oracle() -> Iterator[JavaOracle]:
    with JavaOracle("AuthorizerOracle") as oracle:
        yield oracle


def _kafkas(oracle: JavaOracle, acls: list[Acl], queries: list[Query], *, everyone: bool) -> list[bool]:
    request = {
        "everyone": everyone,
        "superUsers": ";".join(map(str, SUPER_USERS)),
        "acls": acls,
        "requests": [
            [query.principal.type, query.principal.name, query.host, query.operation, query.resource_type,
             query.name]
            for query in queries
        ],
    }  # fmt: skip
    return [letter == "A" for letter in oracle.exchange(json.dumps(request))]


def _ours(authorizer: Authorizer, query: Query) -> bool:
    principal, host, operation, resource_type, name = query
    if name is None:
        return authorizer.authorize_any(principal, host, operation, resource_type).allowed
    return authorizer.authorize(principal, host, operation, resource_type, name).allowed


def _generated_acls(random: Random, types: list[ResourceType], names: list[str]) -> list[Acl]:
    """Each set has its own mood, so that denied and allowed requests occur in sets of every size."""
    denying = random.choice([0.0, 0.1, 0.3, 0.6])
    everyone = random.choice([0.0, 0.3, 0.8])
    acls = {
        Acl(
            random.choice(types),
            random.choice(names),
            random.choice([PatternType.LITERAL, PatternType.PREFIXED]),
            WILDCARD_PRINCIPAL if random.random() < everyone else str(random.choice(PRINCIPALS)),
            random.choice([WILDCARD, WILDCARD, *HOSTS]),
            random.choice([Operation.ALL, *ALL_OPERATIONS]),
            Permission.DENY if random.random() < denying else Permission.ALLOW,
        )
        for _ in range(random.choice([0, 1, 2, 4, 8, 20, 60]))
    }
    return sorted(acls)


def _generated_queries(random: Random, types: list[ResourceType], names: list[str]) -> list[Query]:
    def name() -> str | None:
        pick = random.random()
        if pick < 0.15:
            return None
        return random.choice(names) if pick < 0.7 else random.choice(NAMES)

    return [
        Query(
            random.choice(PRINCIPALS),
            random.choice(HOSTS),
            random.choice(ALL_OPERATIONS),
            random.choice(types),
            name(),
        )
        for _ in range(REQUESTS_PER_SET)
    ]


@pytest.mark.parametrize("everyone", [False, True], ids=["deny by default", "allow if no ACL is found"])
@pytest.mark.parametrize("seed", range(5))
def test_decisions_are_kafkas(oracle: JavaOracle, seed: int, everyone: bool) -> None:
    random = Random(seed)
    authorizer = Authorizer(SUPER_USERS, allow_everyone_if_no_acl_found=everyone)
    before: list[Acl] = []
    allowed = 0
    for _ in range(SETS_PER_SEED):
        types = random.sample(TYPES, random.randint(1, 2))
        names = random.sample(NAMES, random.randint(2, 8))
        acls = _generated_acls(random, types, names)
        # One authorizer for all sets: what it forgets is tested, too.
        for acl in before:
            authorizer.remove(acl)
        for acl in acls:
            authorizer.add(acl)
        before = acls
        queries = _generated_queries(random, types, names)
        expected = _kafkas(oracle, acls, queries, everyone=everyone)
        decided = [_ours(authorizer, query) for query in queries]
        differing = [
            f"{query}: Kafka says {theirs}"
            for query, ours, theirs in zip(queries, decided, expected, strict=True)
            if ours != theirs
        ]
        assert not differing, "\n".join([*differing, "ACLs:", *map(str, acls)])
        allowed += sum(decided)
    # The generator must make both decisions likely.
    assert 0.2 < allowed / (SETS_PER_SEED * REQUESTS_PER_SET) < 0.8
