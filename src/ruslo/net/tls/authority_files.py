"""The files of a development certificate authority: ``ca.pem``, which everyone may read, and ``ca.key``."""

from __future__ import annotations

from pathlib import Path

from ruslo.model.errors import ConfigError
from ruslo.model.secret import Secret
from ruslo.net.tls.development_ca import DevelopmentCa
from ruslo.net.tls.private_files import write_private_file

CERTIFICATE_FILE = "ca.pem"
KEY_FILE = "ca.key"


def write_authority(folder: Path, authority: DevelopmentCa) -> None:
    """Write both files; existing ones are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    write_private_file(folder / KEY_FILE, authority.key.reveal())
    (folder / CERTIFICATE_FILE).write_text(authority.certificate)


def read_authority(folder: Path) -> DevelopmentCa:
    """Raises ConfigError if the folder does not hold both files of one authority."""
    texts = []
    for name in (KEY_FILE, CERTIFICATE_FILE):
        try:
            texts.append((folder / name).read_text())
        except FileNotFoundError:
            raise ConfigError(
                f"{folder} has no file {name}, so it holds no certificate authority. Create one with "
                f"'ruslo cert create-ca {folder}'"
            ) from None
        except UnicodeDecodeError:
            raise ConfigError(f"{folder / name} is not a PEM file. Restore it from a backup") from None
    key, certificate = texts
    try:
        # TypeError: the key is encrypted.
        authority = DevelopmentCa(Secret(key), certificate)
    except (ValueError, TypeError):
        raise ConfigError(
            f"{folder / KEY_FILE} or {folder / CERTIFICATE_FILE} cannot be read. Both must be PEM files, and "
            "the key must not have a password"
        ) from None
    if not authority.is_consistent:
        raise ConfigError(
            f"{folder / KEY_FILE} is not the key of {folder / CERTIFICATE_FILE}. Restore the file that "
            "belongs to the other one"
        )
    return authority
