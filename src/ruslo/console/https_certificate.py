"""The certificate of an HTTPS console, which is replaced when its files change."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl

from ruslo.model.errors import ConfigError

CHECK_INTERVAL_S = 5.0
_log = logging.getLogger(__name__)


class HttpsCertificate:
    def __init__(self, certificate: str, key: str) -> None:
        """Raises ConfigError."""
        self._files = (certificate, key)
        self.context = _new_context()
        self._versions = self._read_versions()
        self._load_into(self.context)

    def replace_if_changed(self) -> bool:
        """Use changed files for new connections; raises ConfigError and keeps the certificate if they are
        invalid."""
        versions = self._read_versions()
        if versions == self._versions:
            return False
        # Remembered even if the new files are invalid: one error is enough.
        self._versions = versions
        self._load_into(_new_context())
        self._load_into(self.context)
        return True

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            try:
                self.replace_if_changed()
            except ConfigError as error:
                _log.error("the console keeps its certificate: %s", error)

    def _load_into(self, context: ssl.SSLContext) -> None:
        certificate, key = self._files
        try:
            # A function, so that OpenSSL never asks for a password at a terminal.
            context.load_cert_chain(certificate, key, lambda: "")
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{certificate} and {key} are not a certificate and its key: "
                f"{getattr(error, 'strerror', None) or error}. Use unencrypted PEM files"
            ) from None

    def _read_versions(self) -> list[tuple[int, int, int] | None]:
        """Inode, time and size of each file: an atomic replacement changes all of them."""
        versions: list[tuple[int, int, int] | None] = []
        for path in self._files:
            try:
                status = os.stat(path)
            except OSError:
                versions.append(None)
            else:
                versions.append((status.st_ino, status.st_mtime_ns, status.st_size))
        return versions


def _new_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
