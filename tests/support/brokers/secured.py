"""Nodes with a listener for each security protocol, with the same property file for Ruslo and Apache Kafka.

The PLAINTEXT listener is for the test itself: its clients, ANONYMOUS, are super users. The clients under test
use the other listeners, with the users and passwords of ``USERS``.

In a cluster no connection between nodes is open: brokers log in to each other with SCRAM, to controllers with
PLAIN, both over TLS and as the user ``broker``. ``ANONYMOUS`` has no permissions there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple

from ruslo.client.admin.admin import Admin
from ruslo.client.settings.channel_security import channel_security
from ruslo.model.scram import ScramMechanism
from ruslo.model.secret import Secret
from ruslo.net.channel import ChannelSettings
from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.node import Node
from tests.support.brokers.quorum import QuorumCluster, QuorumNode
from tests.support.brokers.ruslo import RusloNode
from tests.support.network.certificates import authority, broker_certificate, client_certificate
from tests.support.network.ports import free_port

USERS = {"admin": "admin-secret", "alice": "alice-secret", "bob": "bob-secret", "carol": "carol-secret"}
PROTOCOLS = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
BROKER = "broker"
BROKER_PASSWORD = "broker-secret"
ACCOUNTS = {BROKER: BROKER_PASSWORD, **USERS}
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
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
        return client_settings(self.folder, self.addresses[protocol], protocol, user, mechanism)


def client_settings(
    folder: Path, bootstrap: str, protocol: str, user: str | None = None, mechanism: str = "SCRAM-SHA-256"
) -> dict[str, str]:
    """Kafka's settings of a client of the listeners at ``bootstrap``."""
    settings = {"bootstrap.servers": bootstrap, "security.protocol": protocol}
    if protocol.endswith("SSL"):
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / "ca.pem")}
    if protocol == "SSL" and user is not None:
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(folder / f"{user}.pem")}
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
        **_stores(folder),
        "ssl.client.auth": "requested",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/,DEFAULT",
        "authorizer.class.name": AUTHORIZER,
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


def _stores(folder: Path) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
    }


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


class ClusterPorts(NamedTuple):
    """The ports of a node in a secured cluster."""

    plaintext: int
    brokers: int
    clients: int
    controller: int


def cluster_properties(
    folder: Path, ports: ClusterPorts, roles: str, user: str = BROKER, password: str = BROKER_PASSWORD
) -> dict[str, str]:
    """Properties of a node of Ruslo or Apache Kafka that logs in to the other nodes as ``user``."""
    listeners = {
        "PLAINTEXT": ("PLAINTEXT", ports.plaintext),
        "BROKERS": ("SASL_SSL", ports.brokers),
        "SASL_SSL": ("SASL_SSL", ports.clients),
        "CONTROLLER": ("SASL_SSL", ports.controller),
    }
    address = {name: f"{name}://127.0.0.1:{port}" for name, (_, port) in listeners.items()}
    advertised = [text for name, text in address.items() if name != "CONTROLLER"]
    controllers = [address["CONTROLLER"]] if "controller" in roles else []
    plain = " ".join(f'user_{name}="{secret}"' for name, secret in ACCOUNTS.items())
    login = f'username="{user}" password="{password}"'
    scram = f"{_LOGINS}.scram.ScramLoginModule required"
    return {
        "listeners": ",".join([*advertised, *controllers]),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, (protocol, _) in listeners.items()
        ),
        "inter.broker.listener.name": "BROKERS",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.brokers.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.brokers.scram-sha-512.sasl.jaas.config": f"{scram} {login};",
        "listener.name.sasl_ssl.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{scram};",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": (
            f"{_LOGINS}.plain.PlainLoginModule required {login} {plain};"
        ),
        **_stores(folder),
        "authorizer.class.name": AUTHORIZER,
        "super.users": f"User:{BROKER};User:admin",
    }


def scram_options() -> list[str]:
    """Options of ``storage format`` that create the broker's user and ``USERS``."""
    return [
        option
        for user, password in ACCOUNTS.items()
        for option in ("--add-scram", f"SCRAM-SHA-512=[name={user},password={password}]")
    ]


class SecuredQuorumNode(QuorumNode):
    """A node of a cluster whose nodes talk to each other over SASL_SSL."""

    user, password = BROKER, BROKER_PASSWORD
    """How it logs in to the other nodes."""

    @property
    def ports(self) -> ClusterPorts:
        return ClusterPorts(self.port, self._brokers_port, self._clients_port, self.controller_port)

    @property
    def clients(self) -> str:
        """The address of the SASL_SSL listener of clients."""
        return f"127.0.0.1:{self._clients_port}"

    def server_properties(self) -> dict[str, str]:
        return super().server_properties() | cluster_properties(
            self.directory.parent, self.ports, self.roles, self.user, self.password
        )

    def format(self) -> None:
        self.format_with([*self._format_options, *scram_options()])

    @cached_property
    def _brokers_port(self) -> int:
        return free_port()

    @cached_property
    def _clients_port(self) -> int:
        return free_port()


class SecuredCluster(QuorumCluster):
    """Nodes of Ruslo that talk to each other over SASL_SSL."""

    node_type: ClassVar[type[QuorumNode]] = SecuredQuorumNode

    def __init__(self, directory: Path, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, properties=properties)
        write_certificates(directory)

    @property
    def clients(self) -> str:
        """The bootstrap servers of clients."""
        return ",".join(secured(node).clients for node in self.running_brokers)

    def admin(self, user: str = "admin", bootstrap: str | None = None) -> Admin:
        settings = self.client(user, bootstrap)
        return Admin(
            settings["bootstrap.servers"], settings=ChannelSettings(security=channel_security(settings))
        )

    def client(
        self, user: str, bootstrap: str | None = None, mechanism: str = "SCRAM-SHA-512"
    ) -> dict[str, str]:
        return client_settings(self.directory, bootstrap or self.clients, "SASL_SSL", user, mechanism)


def secured(node: QuorumNode) -> SecuredQuorumNode:
    assert isinstance(node, SecuredQuorumNode)
    return node
