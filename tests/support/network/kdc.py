"""A Kerberos KDC (MIT's, from Debian) on a loopback port, with its database in a temporary folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.network.ports import free_port
from tests.support.tools.programs import require_tool

REALM = "RUSLO.TEST"


class Kdc:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.config = folder / "krb5.conf"
        """``KRB5_CONFIG`` of clients and servers."""
        folder.mkdir(parents=True)
        port = free_port()
        self.config.write_text(
            f"[libdefaults]\ndefault_realm = {REALM}\ndns_lookup_kdc = false\ndns_lookup_realm = false\n"
            "rdns = false\ndns_canonicalize_hostname = false\nudp_preference_limit = 1\n"
            f"[realms]\n{REALM} = {{\n  kdc = 127.0.0.1:{port}\n}}\n"
            f"[domain_realm]\nlocalhost = {REALM}\n127.0.0.1 = {REALM}\n"
        )
        (folder / "kdc.conf").write_text(
            '[kdcdefaults]\nkdc_listen = ""\n'
            f"kdc_tcp_listen = 127.0.0.1:{port}\n"
            f"[realms]\n{REALM} = {{\n  database_name = {folder}/principal\n"
            f"  key_stash_file = {folder}/stash\n  acl_file = {folder}/acl\n}}\n"
            f"[logging]\nkdc = FILE:{folder}/kdc.log\n"
        )

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the programs that use this KDC."""
        return os.environ | {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(self._folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self._folder}/tickets",
        }

    def __enter__(self) -> Self:
        self._run(require_tool("kdb5_util"), "create", "-s", "-P", "master")
        self._process = subprocess.Popen(
            [require_tool("krb5kdc"), "-n"], env=self.environment, stderr=subprocess.PIPE
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.communicate()

    def keytab(self, *principals: str) -> Path:
        """Create principals with random keys; returns a file with the keys."""
        path = self._folder / f"{principals[0].replace('/', '-')}.keytab"
        for principal in principals:
            self._admin("addprinc", "-randkey", principal)
            self._admin("ktadd", "-k", str(path), principal)
        return path

    def _admin(self, *query: str) -> None:
        self._run(require_tool("kadmin.local"), "-r", REALM, *query)

    def _run(self, *command: str) -> None:
        result = subprocess.run(
            command,
            env=self.environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )
        if result.returncode != 0:
            raise RuntimeError(f"{_shown(command)} failed:\n{result.stdout}{result.stderr}")


def _shown(command: Sequence[str]) -> str:
    return " ".join(command)
