"""Nodes with a listener for each security protocol, with the same property file for Ruslo and Apache Kafka.

The PLAINTEXT listener is for the test itself: its clients, ANONYMOUS, are super users. The clients under test
use the other listeners, with the users and passwords of ``USERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ruslo.client.admin.admin import Admin
from ruslo.model.scram import ScramMechanism
from ruslo.model.secret import Secret
from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.node import Node
from tests.support.brokers.ruslo import RusloNode
from tests.support.network.certificates import authority, broker_certificate, client_certificate
from tests.support.network.ports import free_port

USERS = {"admin": "admin-secret", "alice": "alice-secret", "bob": "bob-secret", "carol": "carol-secret"}
PROTOCOLS = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_LOGINS = "org.apache.kafka.common.security"


class Secured(NamedTuple):
    """A node and the files and addresses of its clients."""

    node: Node
    addresses: Mapping[str, str]
    """The bootstrap address by security protocol."""
    folder: Path
    """Holds ``ca.pem`` and, for each user, ``USER.pem`` with a key and a certificate."""

    def client(
        self, protocol: str, user: str | None = None, mechanism: str = "SCRAM-SHA-256"
    ) -> dict[str, str]:
        """Kafka's settings of a client: a user with SASL, a certificate with SSL."""
        settings = {"bootstrap.servers": self.addresses[protocol], "security.protocol": protocol}
        if protocol.endswith("SSL"):
            settings |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.folder / "ca.pem"),
            }
        if protocol == "SSL" and user is not None:
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.folder / f"{user}.pem"),
            }
        if protocol.startswith("SASL"):
            assert user is not None
            settings |= {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas(mechanism, user)}
        return settings


def jaas(mechanism: str, user: str, password: str | None = None) -> str:
    module = (
        f"{_LOGINS}.plain.PlainLoginModule" if mechanism == "PLAIN" else f"{_LOGINS}.scram.ScramLoginModule"
    )
    return f'{module} required username="{user}" password="{password or USERS[user]}";'


def secured_node(
    kind: Callable[..., RusloNode | ApacheKafka],
    folder: Path,
    properties: Mapping[str, str] | None = None,
    *,
    data_dirs: Sequence[Path] | None = None,
    cluster_id: str | None = None,
) -> Secured:
    folder.mkdir(parents=True, exist_ok=True)
    write_certificates(folder)
    ports = {protocol: free_port() for protocol in PROTOCOLS}
    controller_port = free_port()
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    protocols = ",".join(f"{name}:{name}" for name in PROTOCOLS)
    node = kind(
        folder / "node",
        port=ports["PLAINTEXT"],
        controller_port=controller_port,
        data_dirs=data_dirs,
        cluster_id=cluster_id,
        properties={
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
            **security_properties(folder),
            **(properties or {}),
        },
    )
    addresses = {protocol: f"127.0.0.1:{port}" for protocol, port in ports.items()}
    return Secured(node, addresses, folder)


def security_properties(folder: Path) -> dict[str, str]:
    plain = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
    properties = {
        "sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAM)),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "ssl.client.auth": "requested",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/,DEFAULT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        prefix = f"listener.name.{listener}"
        properties[f"{prefix}.plain.sasl.jaas.config"] = f"{_LOGINS}.plain.PlainLoginModule required {plain};"
        for mechanism in SCRAM:
            properties[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = (
                f"{_LOGINS}.scram.ScramLoginModule required;"
            )
    return properties


def write_certificates(folder: Path) -> None:
    (folder / "ca.pem").write_text(authority().certificate)
    issued = {"broker": broker_certificate(), **{user: client_certificate(user) for user in USERS}}
    for name, each in issued.items():
        (folder / f"{name}.pem").write_text(each.key.reveal() + each.chain)


async def add_scram_users(bootstrap: str, users: Sequence[str] = tuple(USERS)) -> None:
    async with Admin(bootstrap) as admin:
        for user in users:
            for mechanism in ScramMechanism:
                await admin.users.set_password(user, Secret(USERS[user]), mechanism)
