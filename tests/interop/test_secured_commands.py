"""The commands on secured clusters, Ruslo and Apache Kafka: SASL_SSL with SCRAM, SSL with a certificate."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ruslo.cli.main import cli
from ruslo.config.properties import format_properties
from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.ruslo import RusloNode
from tests.support.brokers.secured import Secured, add_scram_users, jaas, secured_node
from tests.support.tools.programs import require_tool

CHANNELS = [("SASL_SSL", "SCRAM-SHA-512"), ("SASL_PLAINTEXT", "PLAIN"), ("SSL", "")]
READS = [
    "topic list", "topic describe orders", "group list", "txn list", "cluster info", "cluster health",
    "cluster brokers", "cluster quorum", "config describe --topic orders", "log verify --topic orders",
]  # fmt: skip


@pytest.fixture(scope="module", params=[RusloNode, ApacheKafka])
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    if request.param is ApacheKafka:
        require_tool("java")
    tokens = {"delegation.token.secret.key": "token-key"}
    secured = secured_node(request.param, tmp_path_factory.mktemp("secured"), tokens)
    secured.node.start()
    try:
        asyncio.run(add_scram_users(secured.addresses["PLAINTEXT"]))
        yield secured
    finally:
        secured.node.stop()


def ruslo(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, arguments, input=stdin, env={"RUSLO_PROFILE": ""})


def ok(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(("protocol", "mechanism"), CHANNELS)
def test_commands_use_kafkas_settings(
    secured: Secured, protocol: str, mechanism: str, tmp_path: Path
) -> None:
    path = tmp_path / "client.properties"
    path.write_text(format_properties(secured.client(protocol, "admin", mechanism)))
    use = ["--command-config", str(path)]
    ok(ruslo("topic", "create", "orders", "--if-not-exists", *use))
    ok(ruslo("produce", "orders", *use, stdin=f"{protocol}\n"))
    assert protocol in ok(ruslo("consume", "orders", "--exit", *use)).split()
    for command in READS:
        ok(ruslo(*command.split(), *use))
    for client in ("native", "librdkafka"):
        load = ["perf", "produce", "orders", "-n", "1", "--client", client, "-o", "json", *use]
        assert json.loads(ok(ruslo(*load)))["failed"] == 0


def test_a_wrong_password_is_an_error_without_the_password(secured: Secured, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("wr0ng-s3cret")
    settings = {**secured.client("SASL_SSL", "admin"), "sasl.username": "admin"}
    del settings["sasl.jaas.config"]
    options = [part for name, text in settings.items() for part in ("-X", f"{name}={text}")]
    result = ruslo("topic", "list", *options, "-X", f"sasl.password=@{tmp_path / 'password'}")
    assert result.exit_code == 1
    assert "SASL_AUTHENTICATION_FAILED" in result.stderr
    assert "wr0ng" not in result.output


@pytest.fixture
def admin(secured: Secured, tmp_path: Path) -> list[str]:
    """The options of a super user."""
    path = tmp_path / "admin.properties"
    path.write_text(format_properties(secured.client("SASL_SSL", "admin")))
    return ["--command-config", str(path)]


def test_a_user_gets_access_and_loses_it(secured: Secured, admin: list[str], tmp_path: Path) -> None:
    ok(ruslo("topic", "create", "ledger", "--if-not-exists", *admin))
    password, settings = tmp_path / "password", tmp_path / "dave.properties"
    password.write_text("dave-s3cret")
    ok(ruslo("user", "set-password", "dave", "--password-file", str(password), *admin))
    described = json.loads(ok(ruslo("user", "describe", "dave", "-o", "json", *admin)))
    assert described[0]["mechanisms"] == {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}
    login = jaas("SCRAM-SHA-512", "dave", "dave-s3cret")
    client = {**secured.client("SASL_SSL", "bob", "SCRAM-SHA-512"), "sasl.jaas.config": login}
    settings.write_text(format_properties(client))
    dave = ["--command-config", str(settings)]

    explain = ["acl", "explain", "User:dave", "describe", "topic:ledger", *admin]
    assert ruslo("topic", "describe", "ledger", *dave).exit_code == 1
    assert ruslo(*explain).exit_code == 3
    ok(ruslo("acl", "allow", "User:dave", "read", "topic:led*", *admin))
    assert "READ includes DESCRIBE" in ok(ruslo(*explain))
    ok(ruslo("consume", "ledger", "--exit", *dave))
    ok(ruslo("acl", "deny", "User:dave", "describe", "topic:ledger", *admin))
    denied = ruslo(*explain)
    assert denied.exit_code == 3
    assert "DENY takes precedence over this ACL: ALLOW User:dave READ" in denied.stdout
    assert ruslo("topic", "describe", "ledger", *dave).exit_code == 1
    deleted = ok(ruslo("acl", "delete", "--principal", "User:dave", "--yes", "-o", "json", *admin))
    assert len(json.loads(deleted)) == 2

    ok(ruslo("user", "delete", "dave", "--yes", *admin))
    assert "SASL_AUTHENTICATION_FAILED" in ruslo("topic", "list", *dave).stderr
    assert ruslo("user", "describe", "dave", *admin).exit_code == 1


@pytest.mark.parametrize(
    ("entity", "setting"),
    [
        (["--user", "bob"], "producer_byte_rate=1048576"),
        (["--user", "bob", "--client-id", "etl"], "request_percentage=50"),
        (["--default-client-id"], "consumer_byte_rate=1000"),
        (["--ip", "10.0.0.7"], "connection_creation_rate=20"),
    ],
)
def test_quotas(secured: Secured, admin: list[str], entity: list[str], setting: str) -> None:
    key, _, value = setting.partition("=")
    ok(ruslo("quota", "set", *entity, setting, *admin))
    (found,) = json.loads(ok(ruslo("quota", "describe", *entity, "-o", "json", *admin)))
    assert found["values"] == {key: float(value)}
    assert key in ok(ruslo("quota", "list", *admin))
    ok(ruslo("quota", "delete", *entity, "--yes", *admin))
    assert ruslo("quota", "describe", *entity, *admin).exit_code == 1


def test_a_token_logs_in_for_its_owner_until_it_expires(
    secured: Secured, admin: list[str], tmp_path: Path
) -> None:
    password = tmp_path / "token"
    created = json.loads(ok(ruslo("token", "create", "--password-file", str(password), "-o", "json", *admin)))
    hmac = password.read_text().strip()
    assert "hmac" not in created
    assert password.stat().st_mode & 0o777 == 0o600
    # A broker of Apache Kafka knows it a moment after the controller.
    while created not in json.loads(listed := ok(ruslo("token", "list", "-o", "json", *admin))):
        pass
    assert hmac not in listed

    login = jaas("SCRAM-SHA-256", created["token"], hmac).replace(";", " tokenauth=true;")
    settings = tmp_path / "token.properties"
    settings.write_text(format_properties({**secured.client("SASL_SSL", "admin"), "sasl.jaas.config": login}))
    job = ["--command-config", str(settings)]
    ok(ruslo("topic", "list", *job))
    renewed = json.loads(ok(ruslo("token", "renew", created["token"], "-o", "json", *admin)))
    assert renewed["expires_at_ms"] >= created["expires_at_ms"]
    ok(ruslo("token", "expire", created["token"], "--yes", *admin))
    while created["token"] in ok(ruslo("token", "list", *admin)):
        pass
    assert "SASL_AUTHENTICATION_FAILED" in ruslo("topic", "list", *job).stderr
    assert ruslo("token", "renew", created["token"], *admin).exit_code == 1
