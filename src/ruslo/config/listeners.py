"""Parses listeners and quorum voters of a property file."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ruslo.config.definition import ConfigProblem, InvalidConfig

METRICS_LISTENER_NAME = "METRICS"
"""The listener of ``ruslo.metrics.listener`` in ``listener.name.metrics.KEY``."""
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# Two listeners can share a port only if one uses IPv4 and the other IPv6 (KIP-797).
IP_FAMILIES = 2

_LISTENER: Final = r"(.*)://(?:\[([0-9a-zA-Z\-%._:]*)\]|([0-9a-zA-Z\-%._:]*)):([0-9]+)"


class Endpoint(NamedTuple):
    """A listener. An empty host means all interfaces."""

    listener_name: str
    security_protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener_name}://{host}:{self.port}"


class HostPort(NamedTuple):
    host: str
    port: int


def parse_listener(text: str) -> tuple[str, str, int] | None:
    """Name (upper case), host and port of ``NAME://host:port``, or None for invalid syntax."""
    match = re.fullmatch(_LISTENER, text)
    if match is None or not match[1] or int(match[4]) > 65535:
        return None
    return match[1].upper(), match[2] or match[3] or "", int(match[4])


def parse_listeners(
    key: str, entries: Sequence[str], protocols: Mapping[str, str], *, share_ports: bool = False
) -> tuple[Endpoint, ...]:
    """The endpoints of a list of listeners; ``protocols`` maps a listener's name to its security protocol."""
    endpoints: list[Endpoint] = []
    for entry in entries:
        parts = parse_listener(entry)
        if parts is None:
            raise _invalid(
                key,
                entry,
                "it is not a listener",
                "write it as NAME://host:port, e.g. PLAINTEXT://:9092 or PLAINTEXT://[::1]:9092",
            )
        name, host, port = parts
        if name not in protocols:
            raise _invalid(
                key,
                entry,
                f"listener {name} has no security protocol",
                f"add {name}:PLAINTEXT (or SSL, SASL_PLAINTEXT, SASL_SSL) to listener.security.protocol.map",
            )
        if any(other.listener_name == name for other in endpoints):
            raise _invalid(key, entry, f"listener {name} is listed twice", "give every listener its own name")
        endpoints.append(Endpoint(name, protocols[name], host, port))
    if not share_ports:
        _require_distinct_ports(key, endpoints)
    return tuple(endpoints)


def _require_distinct_ports(key: str, endpoints: Iterable[Endpoint]) -> None:
    by_port: dict[int, list[Endpoint]] = {}
    for endpoint in endpoints:
        # Port 0 means any free port.
        if endpoint.port != 0:
            by_port.setdefault(endpoint.port, []).append(endpoint)
    for port, same_port in by_port.items():
        if len(same_port) == 1:
            continue
        families = {_ip_version(endpoint.host) for endpoint in same_port}
        if len(same_port) == IP_FAMILIES and families == {4, 6}:
            continue
        raise _invalid(
            key,
            ",".join(map(str, same_port)),
            f"port {port} is used by more than one listener",
            "give every listener a port of its own, or one an IPv4 and the other an IPv6 address",
        )


def _ip_version(host: str) -> int | None:
    import ipaddress  # slow to import; needed only if two listeners share a port

    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return None


def parse_protocol_map(key: str, text: str) -> dict[str, str]:
    """``NAME:PROTOCOL,…`` as a mapping of upper-case names."""
    protocols: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip() for part in entry.rpartition(":"))
        if not colon or not name or protocol.upper() not in SECURITY_PROTOCOLS:
            raise _invalid(
                key,
                entry,
                "it does not map a listener to a security protocol",
                f"write NAME:PROTOCOL with one of {', '.join(SECURITY_PROTOCOLS)}",
            )
        protocols[name.upper()] = protocol.upper()
    return protocols


def parse_voters(entries: Sequence[str]) -> dict[int, HostPort]:
    """Voters by node ID, from valid ``id@host:port`` entries."""
    voters: dict[int, HostPort] = {}
    for entry in entries:
        node_id, _, address = entry.partition("@")
        voters[int(node_id)] = parse_host_port(address)
    return voters


def parse_host_port(address: str) -> HostPort:
    host, _, port = address.rpartition(":")
    return HostPort(host.rpartition("://")[2].removeprefix("[").removesuffix("]"), int(port))


def with_reachable_host(endpoint: Endpoint, bound_ports: Mapping[str, int]) -> Endpoint:
    """The address for peers: this machine's host name for all interfaces, the bound port for port 0."""
    port = endpoint.port or bound_ports.get(endpoint.listener_name, 0)
    return endpoint._replace(host=endpoint.host or socket.getfqdn(), port=port)


def _invalid(key: str, value: str, reason: str, fix: str) -> InvalidConfig:
    return InvalidConfig(ConfigProblem(key, value, reason, fix))
