"""The security properties of a node of a secured development cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ruslo.cli.serve.client_files import MECHANISM, SCRAM_LOGIN
from ruslo.model.secret import Secret
from ruslo.net.tls.authority_files import CERTIFICATE_FILE
from ruslo.testing.ports import LOOPBACK

if TYPE_CHECKING:
    from ruslo.testing.cluster_layout import NodePorts

ADMIN: Final = "admin"
"""The super user."""
ORDINARY_USER: Final = "alice"
"""A user without permissions, until ACLs allow something."""
BROKER: Final = "broker"
"""The user as which nodes log in to each other."""
BROKER_FILE: Final = "broker.pem"
TOKEN_KEY: Final = "delegation.token.secret.key"
_PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def security_properties(
    folder: Path, ports: NodePorts, broker_password: Secret, token_key: Secret
) -> dict[str, str]:
    """The properties that replace those of an open cluster. ``folder`` has the certificates.

    Controllers cannot read SCRAM credentials before they have elected a leader, so nodes log in to them with
    PLAIN, over TLS.
    """
    password = broker_password.reveal()
    login = f'username="{BROKER}" password="{password}"'
    client_listener = f"SASL_SSL://{LOOPBACK}:{ports.broker}"
    return {
        "listeners": f"{client_listener},CONTROLLER://{LOOPBACK}:{ports.controller}",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SASL_SSL",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.enabled.mechanisms": MECHANISM,
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        "sasl.mechanism.controller.protocol": "PLAIN",
        f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": f"{SCRAM_LOGIN} {login};",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": (
            f'{_PLAIN_LOGIN} {login} user_{BROKER}="{password}";'
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / BROKER_FILE),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / CERTIFICATE_FILE),
        "authorizer.class.name": _AUTHORIZER,
        "super.users": f"User:{BROKER};User:{ADMIN}",
        TOKEN_KEY: token_key.reveal(),
    }
