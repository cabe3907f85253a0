"""Kerberos principals mapped to users by Kafka's rules."""

from __future__ import annotations

import pytest

from ruslo.model.errors import ConfigError
from ruslo.net.sasl.kerberos_names import KerberosNames
from ruslo.net.sasl.mechanism import AuthenticationFailed


def user(principal: str, *rules: str) -> str:
    return KerberosNames(rules or ("DEFAULT",), lambda: "EXAMPLE.COM").user_of(principal)


def test_the_default_takes_the_first_component_of_the_own_realm() -> None:
    assert user("alice@EXAMPLE.COM") == "alice"
    assert user("kafka/host.example.com@EXAMPLE.COM") == "kafka"
    assert user("alice") == "alice"
    with pytest.raises(AuthenticationFailed):
        user("alice@OTHER.COM")


def test_rules_apply_in_order() -> None:
    rules = (
        "RULE:[1:$1@$0](.*@OTHER.COM)s/@.*//",
        "RULE:[2:$1/$2@$0](admin/.*)s/.*/operator/",
        "RULE:[2:$1](App\\..*)s/App\\.(.*)/$1/g/L",
        "DEFAULT",
    )
    assert user("bob@OTHER.COM", *rules) == "bob"
    assert user("admin/host@EXAMPLE.COM", *rules) == "operator"
    assert user("App.Service-Name/host@EXAMPLE.COM", *rules) == "service-name"
    assert user("alice@EXAMPLE.COM", *rules) == "alice"


@pytest.mark.parametrize("rule", ["", "RULE", "RULE:[x:$1]", "RULE:[1:$1](()s/a/b/", "DEFAULTS"])
def test_invalid_rules_are_refused(rule: str) -> None:
    with pytest.raises(ConfigError):
        KerberosNames((rule,), lambda: "EXAMPLE.COM")


def test_a_result_that_is_not_a_user_name_is_refused() -> None:
    with pytest.raises(AuthenticationFailed):
        user("alice@EXAMPLE.COM", "RULE:[1:$1@$0]")
