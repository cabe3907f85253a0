"""The addresses a client begins with."""

from __future__ import annotations

import socket
from typing import NamedTuple

from ruslo.client.errors import BrokerUnreachable
from ruslo.model.errors import ConfigError


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(text: str, name: str = "bootstrap.servers") -> list[Address]:
    """``host:port,host:port`` in the order given, IPv6 in brackets; ``name`` is for messages."""
    addresses = [_parse_address(part.strip(), name) for part in text.split(",") if part.strip()]
    if not addresses:
        raise ConfigError(f"{name} is empty: give at least one HOST:PORT")
    return list(dict.fromkeys(addresses))


def _parse_address(text: str, name: str) -> Address:
    host, separator, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(f"{text!r} in {name}: write an IPv6 address in brackets, as [::1]:9092")
    if not separator or not host:
        raise ConfigError(f"{text!r} in {name} is not HOST:PORT, as in 127.0.0.1:9092")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"{text!r} in {name}: the port must be a number from 1 to 65535")
    return Address(host, int(port))


def check_reachable(text: str, timeout_s: float = 5.0) -> None:
    """Raise BrokerUnreachable unless one of the servers accepts a connection.

    librdkafka goes on trying for minutes and says so only in its log; people want to hear at once.
    """
    problems = []
    for address in parse_bootstrap(text):
        try:
            with socket.create_connection(address, timeout_s):
                return
        except OSError as error:
            problems.append((address, error))
    raise BrokerUnreachable.from_problems(problems)
