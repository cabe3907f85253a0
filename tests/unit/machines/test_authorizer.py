"""The rules of Kafka's StandardAuthorizer."""

from __future__ import annotations

import random

import pytest

from ruslo.machines.authorizer import DEFAULT_DENY, NO_ACL_FOUND, SUPER_USER, Authorizer
from ruslo.model.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from ruslo.model.principals import Principal

ALICE, BOB, ADMIN = (Principal("User", name) for name in ("alice", "bob", "admin"))
HOST = "10.0.0.1"


def acl(
    name: str = "orders",
    operation: Operation = Operation.READ,
    *,
    permission: Permission = Permission.ALLOW,
    principal: str = "User:alice",
    host: str = "*",
    pattern: PatternType = PatternType.LITERAL,
    resource: ResourceType = ResourceType.TOPIC,
) -> Acl:
    return Acl(resource, name, pattern, principal, host, operation, permission)


def authorizer(*acls: Acl, everyone: bool = False) -> Authorizer:
    made = Authorizer([ADMIN], allow_everyone_if_no_acl_found=everyone)
    for each in acls:
        made.add(each)
    return made


def allowed(
    made: Authorizer,
    principal: Principal = ALICE,
    operation: Operation = Operation.READ,
    name: str = "orders",
    host: str = HOST,
    resource: ResourceType = ResourceType.TOPIC,
) -> bool:
    return made.authorize(principal, host, operation, resource, name).allowed


def test_without_acls_only_super_users_are_allowed() -> None:
    made = authorizer()
    assert not allowed(made)
    assert made.authorize(ALICE, HOST, Operation.READ, ResourceType.TOPIC, "orders").rule == DEFAULT_DENY
    assert made.authorize(ADMIN, HOST, Operation.READ, ResourceType.TOPIC, "orders").rule == SUPER_USER


def test_a_super_user_that_logged_in_with_a_token_is_one() -> None:
    assert allowed(authorizer(), Principal("User", "admin", token_authenticated=True))


def test_deny_takes_precedence_over_allow_and_over_the_order_of_creation() -> None:
    deny = acl(permission=Permission.DENY)
    for made in (authorizer(acl(), deny), authorizer(deny, acl())):
        decision = made.authorize(ALICE, HOST, Operation.READ, ResourceType.TOPIC, "orders")
        assert not decision.allowed
        assert decision.rule == deny


@pytest.mark.parametrize("granted", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_these_operations_include_describe(granted: Operation) -> None:
    made = authorizer(acl(operation=granted))
    assert allowed(made, operation=Operation.DESCRIBE)
    assert not allowed(made, operation=Operation.DESCRIBE_CONFIGS)


def test_alter_configs_includes_describe_configs_only() -> None:
    made = authorizer(acl(operation=Operation.ALTER_CONFIGS))
    assert allowed(made, operation=Operation.DESCRIBE_CONFIGS)
    assert not allowed(made, operation=Operation.DESCRIBE)


def test_a_denial_of_read_does_not_deny_describe() -> None:
    made = authorizer(acl(operation=Operation.ALL), acl(permission=Permission.DENY))
    assert not allowed(made, operation=Operation.READ)
    assert allowed(made, operation=Operation.DESCRIBE)


def test_all_includes_every_operation_and_its_denial_too() -> None:
    assert allowed(authorizer(acl(operation=Operation.ALL)), operation=Operation.ALTER_CONFIGS)
    denied = authorizer(
        acl(operation=Operation.DESCRIBE), acl(operation=Operation.ALL, permission=Permission.DENY)
    )
    assert not allowed(denied, operation=Operation.DESCRIBE)


def test_patterns_cover_names() -> None:
    made = authorizer(
        acl("ord", pattern=PatternType.PREFIXED), acl("*", Operation.WRITE), acl("payments", Operation.CREATE)
    )
    assert allowed(made, name="orders")
    assert allowed(made, name="ord")
    assert not allowed(made, name="or")
    assert allowed(made, name="anything", operation=Operation.WRITE)
    assert not allowed(made, name="payments-2", operation=Operation.CREATE)


def test_a_prefix_of_a_star_is_not_a_wildcard() -> None:
    made = authorizer(acl("*", pattern=PatternType.PREFIXED))
    assert allowed(made, name="*starred")
    assert not allowed(made, name="orders")


def test_an_ipv6_host_matches_in_every_spelling() -> None:
    spellings = ("2001:db8::1", "2001:db8:0:0:0:0:0:1", "2001:0DB8::0001")
    for spelling in spellings:
        denied = authorizer(acl(), acl(host=spelling, permission=Permission.DENY))
        for host in spellings:
            assert not allowed(denied, host=host)
            assert allowed(authorizer(acl(host=spelling)), host=host)
        assert allowed(denied, host="2001:db8::2")
    assert not allowed(authorizer(acl(host="::1")), host="?")
    assert not allowed(authorizer(acl(host="fe80::1%eth0")), host="fe80::1%eth1")


def test_hosts_and_wildcard_principals() -> None:
    made = authorizer(acl(host=HOST), acl("public", principal="User:*"))
    assert allowed(made)
    assert not allowed(made, host="10.0.0.2")
    assert allowed(made, BOB, name="public")


def test_everyone_is_allowed_only_where_no_acl_covers_the_resource() -> None:
    made = authorizer(acl(), everyone=True)
    assert made.authorize(BOB, HOST, Operation.READ, ResourceType.TOPIC, "other").rule == NO_ACL_FOUND
    assert not allowed(made, BOB, name="orders")


def test_removed_acls_do_not_apply_and_equal_ones_count() -> None:
    made = authorizer(acl(), acl(), acl("pre", pattern=PatternType.PREFIXED))
    made.remove(acl())
    assert allowed(made)
    made.remove(acl())
    assert not allowed(made)
    made.remove(acl("pre", pattern=PatternType.PREFIXED))
    assert not allowed(made, name="prefix")
    assert list(made.acls(AclFilter())) == []


def test_any_topic() -> None:
    def any_write(made: Authorizer, principal: Principal = ALICE) -> bool:
        return made.authorize_any(principal, HOST, Operation.WRITE, ResourceType.TOPIC).allowed

    write = Operation.WRITE
    assert any_write(authorizer(), ADMIN)
    assert not any_write(authorizer())
    assert any_write(authorizer(acl(operation=write)))
    assert not any_write(authorizer(acl(operation=Operation.READ)))
    deny_all = acl("*", write, permission=Permission.DENY)
    assert not any_write(authorizer(acl(operation=write), deny_all))
    deny_prefix = acl("ord", write, permission=Permission.DENY, pattern=PatternType.PREFIXED)
    assert not any_write(authorizer(acl(operation=write), deny_prefix))
    assert any_write(authorizer(acl(operation=write), acl("payments", write), deny_prefix))
    assert any_write(authorizer(acl("*", write), deny_prefix))


def test_the_filter_match_finds_the_acls_that_cover_a_name() -> None:
    rules = [
        acl("orders"),
        acl("*"),
        acl("ord", pattern=PatternType.PREFIXED),
        acl("orders", pattern=PatternType.PREFIXED),
        acl("other"),
        acl("orders", resource=ResourceType.GROUP),
    ]
    made = authorizer(*rules)
    wanted = AclFilter(ResourceType.TOPIC, "orders", PatternType.MATCH)
    assert set(made.acls(wanted)) == set(rules[:4])
    assert set(made.acls(wanted._replace(pattern_type=PatternType.LITERAL))) == {rules[0]}
    assert set(made.acls(wanted._replace(pattern_type=PatternType.ANY))) == {rules[0], rules[3]}
    assert AclFilter(operation=99).is_unknown


def test_the_index_decides_like_a_search_through_all_rules() -> None:
    """Thousands of random rules and questions, against the definition of each rule."""
    rng = random.Random(7)
    names = ["a", "ab", "abc", "b", "ba", "*", "abx"]
    operations = [Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL, Operation.ALTER_CONFIGS]
    for _ in range(300):
        rules = [
            acl(
                rng.choice(names),
                rng.choice(operations),
                permission=rng.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
                principal=rng.choice(["User:alice", "User:bob", "User:*"]),
                host=rng.choice(["*", HOST]),
                pattern=rng.choice([PatternType.LITERAL, PatternType.PREFIXED]),
            )
            for _ in range(rng.randrange(8))
        ]
        everyone = rng.random() < 0.3
        made = authorizer(*rules, everyone=everyone)
        for _ in range(20):
            question = (
                rng.choice([ALICE, BOB]),
                rng.choice([op for op in operations if op is not Operation.ALL]),
                rng.choice(["a", "ab", "abc", "abcd", "b", "c"]),
                rng.choice([HOST, "10.9.9.9"]),
            )
            assert allowed(made, *question) == _searched(rules, everyone, *question), (rules, question)


def _searched(
    rules: list[Acl], everyone: bool, principal: Principal, operation: Operation, name: str, host: str
) -> bool:
    covering = [
        rule
        for rule in rules
        if (rule.pattern_type == PatternType.LITERAL and rule.resource_name in (name, "*"))
        or (rule.pattern_type == PatternType.PREFIXED and name.startswith(rule.resource_name))
    ]
    applicable = [
        rule for rule in covering if rule.principal in (str(principal), "User:*") and rule.host in ("*", host)
    ]
    implied = {
        Operation.DESCRIBE: {
            Operation.DESCRIBE,
            Operation.READ,
            Operation.WRITE,
            Operation.DELETE,
            Operation.ALTER,
        },
        Operation.DESCRIBE_CONFIGS: {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS},
    }.get(operation, {operation})
    if any(r.permission == Permission.DENY and r.operation in (operation, Operation.ALL) for r in applicable):
        return False
    if any(r.permission == Permission.ALLOW and r.operation in {*implied, Operation.ALL} for r in applicable):
        return True
    return everyone and not covering


def test_the_cluster_is_a_resource() -> None:
    made = authorizer(acl(CLUSTER_NAME, Operation.CREATE, resource=ResourceType.CLUSTER))
    assert allowed(made, operation=Operation.CREATE, name=CLUSTER_NAME, resource=ResourceType.CLUSTER)
