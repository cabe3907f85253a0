"""Kafka's AclCommand and ConfigCommand print the same against Ruslo and against Apache Kafka."""

from __future__ import annotations

from pathlib import Path

from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.ruslo import RusloNode
from tests.support.brokers.secured import secured_node
from tests.support.tools.java_tools import tool_output
from tests.support.tools.programs import require_tool

ACLS = "org.apache.kafka.tools.AclCommand"
CONFIGS = "kafka.admin.ConfigCommand"
BOB = ("--entity-type", "users", "--entity-name", "bob")
COMMANDS = [
    (ACLS, "--add", "--allow-principal", "User:bob", "--producer", "--topic", "orders"),
    (ACLS, "--add", "--allow-principal", "User:bob", "--consumer", "--topic", "orders", "--group", "g"),
    (ACLS, "--list"),
    (ACLS, "--remove", "--force", "--topic", "orders"),
    (ACLS, "--list", "--principal", "User:bob"),
    (CONFIGS, "--alter", *BOB, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=s3cret]"),
    (CONFIGS, "--alter", *BOB, "--add-config", "producer_byte_rate=1024,consumer_byte_rate=2048"),
    (
        CONFIGS,
        "--alter",
        "--entity-type",
        "clients",
        "--entity-default",
        "--add-config",
        "request_percentage=50",
    ),
    (
        CONFIGS,
        "--alter",
        "--entity-type",
        "ips",
        "--entity-name",
        "127.0.0.9",
        "--add-config",
        "connection_creation_rate=7",
    ),
    (CONFIGS, "--describe", *BOB),
    (CONFIGS, "--describe", "--entity-type", "clients"),
    (CONFIGS, "--describe", "--entity-type", "ips"),
]


def outputs(kind: type[RusloNode] | type[ApacheKafka], folder: Path) -> list[list[str]]:
    secured = secured_node(kind, folder)
    with secured.node:
        bootstrap = ("--bootstrap-server", secured.addresses["PLAINTEXT"])
        return [sorted(tool_output(each[0], *bootstrap, *each[1:]).split("\n")) for each in COMMANDS]


def test_acls_users_and_quotas(tmp_path: Path) -> None:
    require_tool("java")
    expected = outputs(ApacheKafka, tmp_path / "kafka")
    found = outputs(RusloNode, tmp_path / "ruslo")
    assert "bob" in "".join(expected[2])
    assert "SCRAM-SHA-256" in "".join(expected[9])
    for command, ours, theirs in zip(COMMANDS, found, expected, strict=True):
        assert ours == theirs, command
