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
from tests.support.brokers.secured import Secured, add_scram_users, secured_node
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
    secured = secured_node(request.param, tmp_path_factory.mktemp("secured"))
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
