"""Secrets that are planted in a secured node appear nowhere: logs, configs, responses, metrics, processes."""

from __future__ import annotations

import asyncio
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.settings.channel_security import channel_security
from ruslo.model.errors import KafkaError
from ruslo.model.scram import ScramMechanism
from ruslo.model.secret import Secret
from ruslo.net.channel import ChannelSettings
from tests.support.brokers.ruslo import RUSLO, RusloNode
from tests.support.brokers.secured import Secured, secured_node
from tests.support.network.certificates import broker_certificate
from tests.support.network.ports import free_port

PLAIN_PASSWORD = "planted-plain-password"
SCRAM_PASSWORD = "planted-scram-password"
WRONG_PASSWORD = "planted-wrong-password"
TOKEN_KEY = "planted-token-key"
STORE_PASSWORD = "planted-store-password"
METRICS = f"127.0.0.1:{free_port()}"
_LOGINS = "org.apache.kafka.common.security"


class LoudNode(RusloNode):
    def serve_command(self) -> list[str]:
        return [*super().serve_command(), "--log-level", "debug"]


def key_lines() -> list[str]:
    """The lines of the broker's private key, without its first and last."""
    return broker_certificate().key.reveal().strip().splitlines()[1:-1]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("planted")
    plain = f'{_LOGINS}.plain.PlainLoginModule required user_alice="{PLAIN_PASSWORD}";'
    issued = broker_certificate()
    inline = {
        "listener.name.ssl.ssl.keystore.type": "PEM",
        "listener.name.ssl.ssl.keystore.key": issued.key.reveal().replace("\n", "\\n"),
        "listener.name.ssl.ssl.keystore.certificate.chain": issued.chain.replace("\n", "\\n"),
    }
    properties = {
        **inline,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": plain,
        "delegation.token.secret.key": TOKEN_KEY,
        "ssl.key.password": STORE_PASSWORD,
        "ruslo.audit.log": str(folder / "audit.log"),
        "ruslo.audit.log.allowed": "true",
        "ruslo.metrics.listener": METRICS,
    }
    secured = secured_node(LoudNode, folder, properties)
    secured.node.start()
    try:
        yield secured
    finally:
        secured.node.stop()


async def use_secrets(secured: Secured) -> tuple[str, dict[str, str]]:
    """Log in with the secrets; returns the HMAC of a delegation token, and what the client was shown."""
    seen: dict[str, str] = {}
    async with Admin(secured.addresses["PLAINTEXT"]) as admin:
        await admin.users.set_password("alice", Secret(SCRAM_PASSWORD), ScramMechanism.SCRAM_SHA_256)
    logins = [("SCRAM-SHA-256", SCRAM_PASSWORD), ("PLAIN", PLAIN_PASSWORD), ("PLAIN", WRONG_PASSWORD)]
    hmac = ""
    for mechanism, password in logins:
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        settings = secured.client("SASL_SSL", "alice", mechanism) | {
            "sasl.jaas.config": f'{_LOGINS}.{module} required username="alice" password="{password}";'
        }
        try:
            address = settings.pop("bootstrap.servers")
            async with Admin(address, settings=ChannelSettings(security=channel_security(settings))) as alice:
                if not hmac:
                    created = await alice.tokens.create()
                    hmac = created.hmac.reveal()
                    seen["token"] = repr(created)
                await alice.users.set_password("x", Secret(WRONG_PASSWORD), ScramMechanism.SCRAM_SHA_256)
        except KafkaError as error:
            seen[f"error of {mechanism}"] = f"{error} {error!r}"
    return hmac, seen


def test_planted_secrets_appear_nowhere(secured: Secured) -> None:
    folder, node = secured.folder, secured.node
    hmac, seen = asyncio.run(use_secrets(secured))
    assert hmac
    describe = [str(RUSLO), "config", "describe", "--broker", "1", "-b", secured.addresses["PLAINTEXT"]]
    described = subprocess.run(describe, capture_output=True, text=True, timeout=60)
    assert described.returncode == 0, described.stderr
    assert "delegation.token.secret.key" in described.stdout
    seen["config describe"] = described.stdout + described.stderr
    with urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=30) as response:
        seen["metrics"] = response.read().decode()
    for name in ("cmdline", "environ"):
        seen[name] = Path(f"/proc/{node.pid}/{name}").read_bytes().decode(errors="replace")
    seen["log"] = node.log_file.read_text()
    seen["audit log"] = (folder / "audit.log").read_text()
    assert "AlterUserScramCredentials" in seen["audit log"]
    for path in (folder / "node" / "data").rglob("*"):
        if path.is_file():
            seen[str(path)] = path.read_bytes().decode("latin-1")
    planted = [PLAIN_PASSWORD, SCRAM_PASSWORD, WRONG_PASSWORD, TOKEN_KEY, STORE_PASSWORD, hmac, *key_lines()]
    assert [(place, secret) for place, text in seen.items() for secret in planted if secret in text] == []


def test_a_wrong_configuration_is_refused_without_its_secrets(secured: Secured, tmp_path: Path) -> None:
    base = (
        secured.node.properties_file.read_text()
        .replace(str(secured.folder / "node" / "data"), str(tmp_path / "data"))
        .replace(METRICS, "127.0.0.1:0")
    )
    valid = tmp_path / "valid.properties"
    valid.write_text(base)
    formatting = ["storage", "format", "--cluster-id", secured.node.cluster_id, "--standalone"]
    subprocess.run([str(RUSLO), *formatting, "-c", str(valid)], check=True, capture_output=True, timeout=60)
    mistakes = [
        f"listener.name.sasl_ssl.plain.sasl.jaas.config=Module required user_a={PLAIN_PASSWORD}",
        f"listener.name.ssl.ssl.keystore.key={PLAIN_PASSWORD}",
    ]
    for number, mistake in enumerate(mistakes):
        path = tmp_path / f"{number}.properties"
        path.write_text(f"{base}\n{mistake}\n")
        command = [str(RUSLO), "serve", "-c", str(path)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert result.returncode != 0
        printed = result.stdout + result.stderr
        assert mistake.split("=")[0].rpartition(".")[2] in printed
        assert [each for each in (PLAIN_PASSWORD, TOKEN_KEY, *key_lines()) if each in printed] == []
