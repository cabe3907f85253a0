"""Requests about ACLs, delegation tokens, SCRAM users and quotas."""

from __future__ import annotations

from ruslo.model.acls import Operation, PatternType, Permission, ResourceType
from tests.support.authorization.names import STRANGER, Fields, Names


def _acl_filter(principal: str) -> Fields:
    return {
        "resource_type_filter": ResourceType.ANY,
        "resource_name_filter": None,
        "pattern_type_filter": PatternType.ANY,
        "principal_filter": principal,
        "host_filter": None,
        "operation": Operation.ANY,
        "permission_type": Permission.ANY,
    }


def describe_acls(names: Names) -> Fields:
    return _acl_filter(f"User:{names.random.choice(names.users)}")


def create_acls(names: Names) -> Fields:
    acl = {
        "resource_type": ResourceType.TOPIC,
        # No other request names it: the rule takes effect at an unknown time.
        "resource_name": "created",
        "resource_pattern_type": PatternType.LITERAL,
        "principal": f"User:{STRANGER}",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
    }
    return {"creations": [acl] * names.random.randint(1, 2)}


def delete_acls(names: Names) -> Fields:
    return {"filters": [_acl_filter("User:absent")] * names.random.randint(1, 2)}


def _user(names: Names) -> Fields:
    return {"principal_type": "User", "principal_name": names.random.choice(names.users)}


def create_delegation_token(names: Names) -> Fields:
    # A renewer that is not a user is refused, after the authorization.
    owner = _user(names) if names.random.random() < 0.8 else {}
    return {
        **{f"owner_{field}": value for field, value in owner.items()},
        "renewers": [{"principal_type": "Group", "principal_name": "x"}],
        "max_lifetime_ms": -1,
    }


def renew_delegation_token(names: Names) -> Fields:
    return {"hmac": names.tokens[names.random.choice(sorted(names.tokens))], "renew_period_ms": -1}


def expire_delegation_token(names: Names) -> Fields:
    hmac = names.tokens[names.random.choice(sorted(names.tokens))]
    return {"hmac": hmac, "expiry_time_period_ms": 80_000_000}


def describe_delegation_token(names: Names) -> Fields:
    everyone = names.random.random() < 0.6
    return {"owners": None if everyone else [_user(names) for _ in range(2)]}


def alter_client_quotas(names: Names) -> Fields:
    entity = {"entity_type": "user", "entity_name": names.random.choice(names.users)}
    ops = [{"key": "producer_byte_rate", "value": 1e9, "remove": False}]
    return {"entries": [{"entity": [entity], "ops": ops}], "validate_only": True}


def describe_client_quotas(names: Names) -> Fields:
    return {"components": [{"entity_type": "user", "match_type": 2, "match": None}]}


def describe_scram(names: Names) -> Fields:
    return {"users": [{"name": "absent"}]}


def alter_scram(names: Names) -> Fields:
    return {"deletions": [{"name": "absent", "mechanism": 1}], "upsertions": []}
