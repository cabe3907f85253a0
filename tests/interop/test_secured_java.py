"""The Java client and Kafka's tools on a secured node: each mechanism, sessions that end, tokens."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.model.acls import Acl, Operation, PatternType, Permission, ResourceType
from tests.support.brokers.ruslo import RusloNode
from tests.support.brokers.secured import SCRAM, Secured, add_scram_users, jaas, secured_node
from tests.support.network.certificates import HOSTS, authority
from tests.support.network.kdc import REALM, Kdc
from tests.support.network.oauth_provider import AUDIENCE, ISSUER, OAuthProvider
from tests.support.tools.java_tools import run_tool, tool_output
from tests.support.tools.kafka_jars import TOOL_JAVA_OPTIONS, support_java_command

pytestmark = pytest.mark.usefixtures("needs_java")

SECURITY = "org.apache.kafka.common.security"
OAUTH_MODULE = f"{SECURITY}.oauthbearer.OAuthBearerLoginModule required;"
KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"


class Setup(NamedTuple):
    secured: Secured
    provider: OAuthProvider
    kdc: Kdc
    folder: Path

    def file(self, settings: Mapping[str, str]) -> str:
        path = self.folder / "client.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return str(path)

    def visible_topics(self, settings: Mapping[str, str]) -> list[str]:
        """The topics that the user of these settings may describe."""
        arguments = ("--bootstrap-server", settings["bootstrap.servers"], "--command-config")
        return tool_output(TOPICS, *arguments, self.file(settings), "--list").split()

    def produce(self, settings: Mapping[str, str], reauthentications: int = 0) -> str:
        """What a producer with options of its own for Java prints."""
        options = (
            *TOOL_JAVA_OPTIONS,
            f"-Djava.security.krb5.conf={self.kdc.config}",
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.token_file.as_uri()}",
        )
        command = support_java_command(
            "SecuredClient", self.file(settings), "orders", str(reauthentications), java_options=options
        )
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=90).stdout

    @property
    def token_file(self) -> Path:
        return self.folder / "token"


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    folder = tmp_path_factory.mktemp("java")
    with OAuthProvider() as provider, Kdc(folder / "kdc") as kdc:
        keytab = kdc.keytab("kafka/localhost")
        prefix = "listener.name.sasl_ssl"
        properties = {
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            f"{prefix}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER,GSSAPI",
            f"{prefix}.oauthbearer.sasl.jaas.config": OAUTH_MODULE,
            f"{prefix}.gssapi.sasl.jaas.config": (
                f'{KERBEROS_MODULE} keyTab="{keytab}" principal="kafka/localhost@{REALM}";'
            ),
            "sasl.kerberos.service.name": "kafka",
            "sasl.kerberos.principal.to.local.rules": "RULE:[1:$1@$0](.*@RUSLO.TEST)s/@.*//,DEFAULT",
            "sasl.oauthbearer.jwks.endpoint.url": provider.url,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{prefix}.plain.connections.max.reauth.ms": "1500",
            "delegation.token.secret.key": "token-secret",
        }
        secured = secured_node(RusloNode, folder / "node", properties)
        with pytest.MonkeyPatch.context() as patch:
            for name in ("KRB5_CONFIG", "KRB5CCNAME"):
                patch.setitem(os.environ, name, kdc.environment[name])
            secured.node.start()
        try:
            asyncio.run(set_up(secured.addresses["PLAINTEXT"]))
            yield Setup(secured, provider, kdc, folder)
        finally:
            secured.node.stop()


async def set_up(bootstrap: str) -> None:
    await add_scram_users(bootstrap)
    async with Admin(bootstrap) as admin:
        await admin.topics.create([NewTopic("orders", 1, 1)])
        await admin.acls.create(
            [
                Acl(
                    ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", operation,
                    Permission.ALLOW,
                )
                for operation in (Operation.WRITE, Operation.DESCRIBE)
            ]
        )  # fmt: skip


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM, "certificate"])
def test_a_user_sees_what_its_acls_allow(setup: Setup, mechanism: str) -> None:
    protocol = "SSL" if mechanism == "certificate" else "SASL_SSL"
    seen = [
        setup.visible_topics(setup.secured.client(protocol, user, mechanism)) for user in ("alice", "bob")
    ]
    assert seen == [["orders"], []]


def test_oauthbearer_with_a_token_from_a_file(setup: Setup) -> None:
    setup.token_file.write_text(setup.provider.token("alice", "ec"))
    settings = setup.secured.client("SASL_SSL", "alice") | {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": OAUTH_MODULE,
        "sasl.oauthbearer.token.endpoint.url": setup.token_file.as_uri(),
        "sasl.login.callback.handler.class": f"{SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler",
    }
    assert setup.produce(settings).endswith("failed 0\n")
    setup.token_file.write_text(setup.provider.token("bob", "rsa"))
    assert setup.produce(settings).startswith("TopicAuthorizationException")


def test_gssapi_with_a_keytab(setup: Setup) -> None:
    for user, ending in (("alice", "failed 0\n"), ("bob", "[orders]\n")):
        keytab = setup.kdc.keytab(user)
        settings = setup.secured.client("SASL_SSL", user) | {
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": f'{KERBEROS_MODULE} keyTab="{keytab}" principal="{user}@{REALM}";',
        }
        assert setup.produce(settings).endswith(ending)


def test_a_producer_authenticates_again_before_its_sessions_end(setup: Setup) -> None:
    printed = setup.produce(setup.secured.client("SASL_SSL", "alice", "PLAIN"), reauthentications=3)
    connections, again, failed = map(int, re.findall(r"\d+", printed))
    assert again >= 3
    assert failed == 0
    assert connections <= 2, "the sessions ended and the client had to connect again"


def test_a_delegation_token_is_created_used_renewed_and_expired(setup: Setup) -> None:
    owner = setup.secured.client("SASL_SSL", "alice", "SCRAM-SHA-256")

    def tokens(*arguments: str) -> str:
        base = ("--bootstrap-server", owner["bootstrap.servers"], "--command-config", setup.file(owner))
        return tool_output(TOKENS, *base, *arguments)

    created = tokens("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:alice")
    *_, row = (line for line in created.splitlines() if "User:alice" in line)
    token_id, hmac = row.split()[:2]
    assert token_id in tokens("--describe", "--owner-principal", "User:alice")
    settings = owner | {"sasl.jaas.config": jaas("SCRAM-SHA-256", token_id, hmac)[:-1] + ' tokenauth="true";'}
    assert setup.visible_topics(settings) == ["orders"]
    assert "renew" in tokens("--renew", "--renew-time-period", "-1", "--hmac", hmac).lower()
    tokens("--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    assert setup.produce(settings).startswith("SaslAuthenticationException")


def test_config_command_exchanges_the_certificate_of_a_listener(setup: Setup) -> None:
    """New connections get the new one; a store that cannot be used is refused and the old one stays."""
    host, _, port = setup.secured.addresses["SSL"].rpartition(":")

    def change(name: str, common_name: str, content: str = "") -> tuple[int, str]:
        issued = authority().issue(common_name, HOSTS)
        path = setup.folder / name
        path.write_text(content or issued.key.reveal() + issued.chain)
        address = ("--bootstrap-server", setup.secured.addresses["PLAINTEXT"])
        entity = ("--entity-type", "brokers", "--entity-name", "1", "--alter")
        added = f"listener.name.ssl.ssl.keystore.location={path},listener.name.ssl.ssl.keystore.type=PEM"
        result = run_tool("kafka.admin.ConfigCommand", *address, *entity, "--add-config", added)
        return result.returncode, issued.chain[: issued.chain.index("-----END")]

    def served() -> str:
        return ssl.get_server_certificate((host, int(port)))

    code, expected = change("new.pem", "broker")
    assert code == 0
    while not served().startswith(expected):
        """The broker applies the change shortly after it is committed."""
    assert change("broken.pem", "broker", "not a key")[0] != 0
    assert change("other.pem", "another-name")[0] != 0
    assert served().startswith(expected)
