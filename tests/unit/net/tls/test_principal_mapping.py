"""``ssl.principal.mapping.rules``, with the examples of Kafka's documentation."""

from __future__ import annotations

import pytest

from ruslo.model.errors import ConfigError
from ruslo.net.tls.errors import TlsError
from ruslo.net.tls.principal_mapping import PrincipalMapper

RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("CN=kafka.example.com,OU=ServiceUsers,O=X", "kafka.example.com"),
        ("CN=Duke,OU=JavaSoft,O=Sun,L=Palo,ST=CA,C=US", "duke@javasoft"),
        ("OU=x,cn=nina", "NINA"),
        ("OU=none", "OU=none"),
    ],
)
def test_the_first_rule_that_applies_decides(name: str, user: str) -> None:
    assert PrincipalMapper(RULES).user_of(name) == user


def test_a_name_without_a_rule_is_refused() -> None:
    with pytest.raises(TlsError):
        PrincipalMapper("RULE:^CN=(.*)$/$1/").user_of("OU=x")


@pytest.mark.parametrize("rules", ["RULE:", "RULE:a", "RULE:a/b", "RULE:(/b/", "DEFAULT,RULE", "RULE:a/b/X"])
def test_invalid_rules_are_refused(rules: str) -> None:
    with pytest.raises(ConfigError):
        PrincipalMapper(rules)


def test_slashes_are_escaped() -> None:
    assert PrincipalMapper("RULE:^CN=(.*)\\/(.*)$/$2\\/$1/").user_of("CN=a/b") == "b/a"
