"""``ruslo dev --secure``: what clients can do with the files that it writes."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner, Result
from confluent_kafka import KafkaError, Producer

from ruslo.cli.main import cli
from tests.support.checks.cli_checks import RUSLO

VALUES = ["by command", "by librdkafka"]
OUTSIDER = {"RUSLO_PROFILE": "", "RUSLO_BOOTSTRAP": ""}


class Dev(NamedTuple):
    bootstrap: str
    files: dict[str, Path]
    """The property file of each user."""

    def run(self, user: str, *arguments: str, stdin: str = "") -> Result:
        command = [*arguments, "--command-config", str(self.files[user])]
        return CliRunner().invoke(cli, command, input=stdin, env=OUTSIDER, catch_exceptions=False)

    def ok(self, user: str, *arguments: str, stdin: str = "") -> str:
        result = self.run(user, *arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    def librdkafka(self, user: str) -> dict[str, str]:
        text = self.files[user].with_name(f"{user}.librdkafka.properties").read_text()
        return dict(line.split("=", 1) for line in text.splitlines())


@contextmanager
def running(data_dir: Path) -> Iterator[Dev]:
    process = subprocess.Popen(
        [*RUSLO, "dev", "--secure", "--brokers", "1", "--port", "0", "--data-dir", str(data_dir)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines = [process.stdout.readline().strip() for _ in range(3)]
    try:
        (key, bootstrap), *files = (line.split("=") for line in lines)
        assert key == "bootstrap.servers"
        yield Dev(bootstrap, {name.removeprefix("client.properties."): Path(path) for name, path in files})
    finally:
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    assert (process.returncode, output) == (0, ""), errors
    for secret in (data_dir / "security/secrets.properties").read_text().split():
        assert secret.partition("=")[2] not in errors


def produce_with_librdkafka(settings: dict[str, str]) -> None:
    errors: list[KafkaError | None] = []
    producer = Producer(settings)
    producer.produce("orders", "by librdkafka", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None]


def test_a_secured_cluster_in_one_command(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with running(data_dir) as dev:
        dev.ok("admin", "topic", "create", "orders")
        assert "TOPIC_AUTHORIZATION_FAILED" in dev.run("alice", "produce", "orders", stdin="no\n").stderr
        assert "orders" not in dev.ok("alice", "topic", "list")
        dev.ok("admin", "acl", "allow", "User:alice", "write", "topic:orders")
        dev.ok("alice", "produce", "orders", stdin="by command\n")

        produce_with_librdkafka(dev.librdkafka("alice"))
        assert "TOPIC_AUTHORIZATION_FAILED" in dev.run("alice", "consume", "orders", "--exit").stderr
        dev.ok("admin", "acl", "allow", "User:alice", "read", "topic:orders")
        # Without a group it needs no ACL on groups.
        assert sorted(dev.ok("alice", "consume", "orders", "--exit").splitlines()) == VALUES

        open_client = CliRunner().invoke(cli, ["topic", "list", "-b", dev.bootstrap], env=OUTSIDER)
        assert open_client.exit_code == 1
        assert "is a listener with TLS" in open_client.stderr
        wrong = dev.files["alice"].with_name("wrong.properties")
        password = dev.librdkafka("alice")["sasl.password"]
        wrong.write_text(dev.files["alice"].read_text().replace(password, "guessed"))
        dev.files["wrong"] = wrong
        assert "SASL_AUTHENTICATION_FAILED" in dev.run("wrong", "topic", "list").stderr
        files = {path: path.read_text() for path in dev.files.values()}
        second = subprocess.run(
            [*RUSLO, "dev", "--secure", "--port", "0", "--data-dir", str(data_dir)],
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert (second.returncode, second.stdout) == (1, "")
        assert "in use" in second.stderr
        assert {path: path.read_text() for path in files} == files
        dev.ok("alice", "topic", "list")
        before = {user: dev.librdkafka(user)["sasl.password"] for user in ("admin", "alice")}

    with running(data_dir) as dev:
        assert {user: dev.librdkafka(user)["sasl.password"] for user in before} == before
        values = dev.ok("admin", "consume", "orders", "--exit").splitlines()
        assert sorted(values) == VALUES

    refused = subprocess.run(
        [*RUSLO, "dev", "--port", "0", "--data-dir", str(data_dir)],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "Add --secure" in refused.stderr
