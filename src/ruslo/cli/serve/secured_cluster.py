"""A development cluster with TLS, SCRAM and ACLs: its certificates, its users and the files of its clients.

They are in the folder ``security`` beside the data of the nodes, so a restart finds them again.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from ruslo.cli.serve.client_files import MECHANISM, ClientFiles, write_client_files, write_console_file
from ruslo.cli.serve.secured_properties import (
    ADMIN,
    BROKER,
    BROKER_FILE,
    ORDINARY_USER,
    TOKEN_KEY,
    security_properties,
)
from ruslo.model.errors import ConfigError
from ruslo.model.secret import Secret
from ruslo.net.tls.authority_files import CERTIFICATE_FILE
from ruslo.testing.ports import LOOPBACK

if TYPE_CHECKING:
    from ruslo.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
    from ruslo.testing.cluster_layout import NodePorts

_FOLDER = "security"
_SECRETS_FILE = "secrets.properties"
_PASSWORD_BYTES = 18


class SecuredCluster:
    def __init__(self, data_folder: Path) -> None:
        """Read the secrets of the data folder, or create them; write the certificate of the nodes."""
        self.folder = data_folder / _FOLDER
        self.ca_file = self.folder / CERTIFICATE_FILE
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._secrets = _read_or_create_secrets(self.folder / _SECRETS_FILE)
        self._write_certificates()
        self.clients: list[ClientFiles] = []

    def write_client_files(self, bootstrap: str) -> None:
        """Call it when the nodes run: only then nothing else uses the folder, with other addresses."""
        self.clients = [
            write_client_files(self.folder, bootstrap, user, self.password(user), self.ca_file)
            for user in (ADMIN, ORDINARY_USER)
        ]

    def write_console_file(self) -> Path:
        return write_console_file(self.folder, self.ca_file)

    def password(self, user: str) -> Secret:
        return self._secrets[_password_key(user)]

    def files_of(self, user: str) -> ClientFiles:
        return next(each for each in self.clients if each.user == user)

    def scram_users(self) -> list[UserScramCredentialRecord]:
        """The users that formatting adds to a new cluster."""
        from ruslo.broker.node.bootstrap_users import parse_scram_user

        return [
            parse_scram_user(Secret(f"{MECHANISM}=[name={user},password={self.password(user).reveal()}]"))
            for user in (BROKER, ADMIN, ORDINARY_USER)
        ]

    def node_properties(self, ports: NodePorts) -> dict[str, str]:
        return security_properties(self.folder, ports, self.password(BROKER), self._secrets[TOKEN_KEY])

    def _write_certificates(self) -> None:
        """Keep the CA that clients trust; issue a new certificate of the brokers at each start."""
        from ruslo.net.tls.authority_files import KEY_FILE, read_authority, write_authority
        from ruslo.net.tls.development_ca import DevelopmentCa
        from ruslo.net.tls.key_stores import key_store_pem
        from ruslo.net.tls.private_files import write_private_file

        if not (self.ca_file.exists() or (self.folder / KEY_FILE).exists()):
            write_authority(self.folder, DevelopmentCa.new())
        issued = read_authority(self.folder).issue(BROKER, ("localhost", LOOPBACK))
        write_private_file(self.folder / BROKER_FILE, key_store_pem(issued))


def check_data_folder(folder: Path, secure: bool, brokers: int) -> None:
    """Whether a cluster is secured, and its nodes, are decided when its data is created.

    Raises ConfigError for the data of another cluster. New nodes could outvote those with data.
    """
    is_secured = (folder / _FOLDER / _SECRETS_FILE).exists()
    if is_secured and not secure:
        raise ConfigError(
            f"{folder} holds a secured cluster. Add --secure, or choose another folder for --data-dir"
        )
    formatted = [path for path in (folder, *folder.glob("node-*")) if (path / "meta.properties").exists()]
    if formatted and len(formatted) != brokers:
        raise ConfigError(
            f"{folder} holds a cluster with --brokers {len(formatted)}. Start it with that, or choose "
            "another folder for --data-dir"
        )
    if secure and not is_secured and formatted:
        raise ConfigError(
            f"{folder} holds a cluster without users and ACLs. Choose another folder for --data-dir, or omit "
            "--secure"
        )


def _read_or_create_secrets(file: Path) -> dict[str, Secret]:
    from ruslo.config.properties import format_properties, parse_properties
    from ruslo.net.tls.private_files import write_private_file

    names = [*map(_password_key, (BROKER, ADMIN, ORDINARY_USER)), TOKEN_KEY]
    if not file.exists():
        new = {name: secrets.token_urlsafe(_PASSWORD_BYTES) for name in names}
        write_private_file(file, format_properties(new))
    found = parse_properties(file.read_text())
    missing = [name for name in names if not found.get(name)]
    if missing:
        raise ConfigError(
            f"{file} has no {missing[0]}. Restore the file from a backup, or choose another folder for "
            "--data-dir"
        )
    return {name: Secret(found[name]) for name in names}


def _password_key(user: str) -> str:
    return f"password.{user}"
