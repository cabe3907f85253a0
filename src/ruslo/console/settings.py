"""What a console is told when it starts."""

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
    """0 takes any free one."""
    read_only: bool = False
    password: str | None = None
    """Without one whoever reaches the port may do everything, so it must be the loopback."""
    host_names: tuple[str, ...] = ()
    """Names by which browsers may call the console, besides localhost and addresses."""

    def __post_init__(self) -> None:
        if not is_loopback(self.host) and not self.password:
            raise ConfigError(
                f"{self.host} can be reached from other machines, so the console needs a password: set "
                "RUSLO_CONSOLE_PASSWORD or give --password-file, or leave --host at 127.0.0.1"
            )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
