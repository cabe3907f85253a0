"""Settings of a console."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from ruslo.model.errors import ConfigError

DEFAULT_PORT = 8090


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    bootstrap: str
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    """0 selects a free port."""
    read_only: bool = False
    password: str | None = None
    """Without a password every client may change the cluster, so the host must be a loopback address."""
    host_names: tuple[str, ...] = ()
    """Host names that browsers may use besides localhost and IP addresses."""

    def __post_init__(self) -> None:
        if not is_loopback(self.host) and not self.password:
            raise ConfigError(
                f"{self.host} is reachable from other machines, so the console needs a password: set "
                "RUSLO_CONSOLE_PASSWORD or --password-file, or keep --host at 127.0.0.1"
            )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
