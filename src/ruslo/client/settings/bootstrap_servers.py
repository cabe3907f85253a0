"""``bootstrap.servers``: the addresses from which a client discovers the cluster."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from ruslo.model.errors import ConfigError


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(text: str, name: str = "bootstrap.servers") -> list[Address]:
    """Parse ``host:port,host:port``, in this order; IPv6 in brackets. Errors call the setting ``name``."""
    addresses = [_parse_address(part.strip(), name) for part in text.split(",") if part.strip()]
    if not addresses:
        raise ConfigError(f"{name} is empty: give at least one HOST:PORT")
    return list(dict.fromkeys(addresses))


def _parse_address(text: str, name: str) -> Address:
    if "://" in text:
        raise ConfigError(f"{text!r} in {name} is a URL: write HOST:PORT only")
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


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
