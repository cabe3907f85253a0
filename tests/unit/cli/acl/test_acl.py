from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from ruslo.cli.main import cli
from ruslo.model.acls import Acl, Operation, PatternType, Permission, ResourceType

DENY = Acl(
    ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", Operation.READ, Permission.DENY
)


def denial(operation: str, name: str = "orders", rule: str = "no ACL allows it") -> str:
    fields = {"event": "denied", "principal": "User:alice", "operation": operation, "resource": "TOPIC"}
    return json.dumps({**fields, "name": name, "rule": rule})


def acl(*arguments: str, stdin: str = "") -> Result:
    environment = {"RUSLO_BOOTSTRAP": "127.0.0.1:1", "RUSLO_PROFILE": ""}
    return CliRunner().invoke(cli, ["acl", *arguments], input=stdin, env=environment)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["allow", "alice", "read", "topic:t"], "is not a principal"),
        (["allow", "User:alice", "reed", "topic:t"], "'reed' is not an operation"),
        (["allow", "User:alice", "read", "topik:t"], "'topik:t' is not a resource"),
        (["allow", "User:alice", "read", "topic:"], "has no name"),
        (["deny", "User:alice", "write", "group:g"], "group has no operation write"),
        (["delete"], "Choose ACLs with"),
        (["explain", "User:alice", "read", "orders"], "is not a resource"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], problem: str) -> None:
    result = acl(*arguments)
    assert result.exit_code == 2, result.output
    assert problem in " ".join(result.stderr.split())


def test_suggestions_are_the_least_acls() -> None:
    lines = [denial("DESCRIBE"), denial("READ"), denial("READ"), denial("DESCRIBE", "prices")]
    login = json.dumps({"event": "login", "principal": "User:alice"})
    result = acl("suggest", "-", stdin="\n".join([*lines, login]))
    assert result.stdout.splitlines() == [
        "ruslo acl allow User:alice read topic:orders",
        "ruslo acl allow User:alice describe topic:prices",
    ]


def test_a_denial_by_an_acl_is_not_answered_with_another_acl() -> None:
    deny = str(DENY)
    result = acl("suggest", "-", "-o", "json", stdin=denial("READ", rule=deny))
    assert json.loads(result.stdout)["commands"] == []
    assert deny in json.loads(result.stdout)["denied_by_acl"][0]


def test_a_file_that_is_not_an_audit_log() -> None:
    result = acl("suggest", "-", stdin="hello\n")
    assert result.exit_code == 1
    assert "Line 1 is not a line of an audit log" in result.stderr
