"""Property files with which clients connect to a secured development cluster.

They contain passwords, so only their owner may read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ruslo.model.secret import Secret

MECHANISM: Final = "SCRAM-SHA-512"
SCRAM_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_PROTOCOL = "SASL_SSL"


class ClientFiles(NamedTuple):
    user: str
    java: Path
    """Kafka's own settings: for Java, Kafka's tools, ``ruslo`` commands and Spark."""
    librdkafka: Path
    """The settings of librdkafka, and of the clients that are built on it."""


def write_client_files(
    folder: Path, bootstrap: str, user: str, password: Secret, ca_file: Path
) -> ClientFiles:
    java = {
        "bootstrap.servers": bootstrap,
        **_shared_settings(ca_file),
        "sasl.jaas.config": f'{SCRAM_LOGIN} username="{user}" password="{password.reveal()}";',
    }
    librdkafka = {
        "bootstrap.servers": bootstrap,
        "security.protocol": _PROTOCOL,
        "ssl.ca.location": str(ca_file),
        "sasl.mechanism": MECHANISM,
        "sasl.username": user,
        "sasl.password": password.reveal(),
    }
    return ClientFiles(
        user,
        _write(folder / f"{user}.properties", java),
        _write(folder / f"{user}.librdkafka.properties", librdkafka),
    )


def write_console_file(folder: Path, ca_file: Path) -> Path:
    """The settings of the web console, without a user: its users log in as users of the cluster."""
    return _write(folder / "console.properties", _shared_settings(ca_file))


def _shared_settings(ca_file: Path) -> dict[str, str]:
    return {
        "security.protocol": _PROTOCOL,
        "sasl.mechanism": MECHANISM,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca_file),
    }


def _write(path: Path, settings: Mapping[str, str]) -> Path:
    from ruslo.config.properties import format_properties
    from ruslo.net.tls.private_files import write_private_file

    write_private_file(path, format_properties(settings))
    return path
