"""Scrapes the Prometheus metrics of Ruslo's brokers: what no request of Kafka's protocol returns.

Brokers of Apache Kafka, brokers without a metrics listener, and listeners with TLS or behind another address
have none: callers show those figures as unknown.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import time
from collections.abc import Mapping, Sequence

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.configs import Resource
from ruslo.client.settings.bootstrap_servers import Address, is_loopback, parse_bootstrap
from ruslo.client.wire.metadata import Node
from ruslo.model.errors import ConfigError, KafkaError

_LISTENER = "ruslo.metrics.listener"
_PROTOCOL = "ruslo.metrics.security.protocol"
_ADDRESS_MAX_AGE_S = 60.0
_SCRAPE_TIMEOUT_S = 1.0
_SCRAPE_BYTES_MAX = 4 * 1024 * 1024
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


class BrokerMetrics:
    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._addresses: dict[int, Address | None] = {}
        self._updated_s = 0.0

    async def scrape(self, nodes: Mapping[int, Node]) -> dict[int, bytes]:
        """The exposition of each broker that responds in time."""
        expired = time.monotonic() - self._updated_s > _ADDRESS_MAX_AGE_S
        if expired or nodes.keys() - self._addresses.keys():
            found = await asyncio.gather(*(self._address(node) for node in nodes.values()))
            self._addresses = dict(zip(nodes, found, strict=True))
            self._updated_s = time.monotonic()
        known = {
            node_id: address
            for node_id, address in self._addresses.items()
            if node_id in nodes and address is not None
        }
        scraped = await asyncio.gather(*(_scrape(address) for address in known.values()))
        return {node_id: text for node_id, text in zip(known, scraped, strict=True) if text is not None}

    async def _address(self, node: Node) -> Address | None:
        try:
            entries = await self._admin.configs.describe(Resource.broker(node.id), [_LISTENER, _PROTOCOL])
            values = {entry.name: entry.value for entry in entries}
            if values.get(_PROTOCOL) == "SSL":
                return None  # this client has no certificate for it
            value = values.get(_LISTENER)
            return address_for(node, parse_bootstrap(value)[0]) if value else None
        except (KafkaError, ConfigError):
            return None  # other brokers do not have this config, and port 0 is unknown


def address_for(node: Node, listener: Address) -> Address | None:
    """The address of a node's metrics as seen from here; None if it would be another machine."""
    try:
        is_wildcard = ipaddress.ip_address(listener.host).is_unspecified
    except ValueError:
        is_wildcard = False
    if is_wildcard:
        return Address(node.host, listener.port)
    same = listener.host == node.host or (is_loopback(listener.host) and is_loopback(node.host))
    return listener if same else None


def read_gauges(text: bytes, name: str, labels: Sequence[str]) -> dict[tuple[str, ...], float]:
    """The samples of a family that have all these labels, by the values of the labels."""
    found = {}
    for match in re.finditer(rb"^%b\{(.*)\} (\S+)$" % re.escape(name.encode()), text, re.MULTILINE):
        values = {
            label: _unescaped(value) for label, value in _LABEL.findall(match[1].decode(errors="replace"))
        }
        if all(label in values for label in labels):
            found[tuple(values[label] for label in labels)] = float(match[2])
    return found


def _unescaped(value: str) -> str:
    return _ESCAPED.sub(lambda match: "\n" if match[1] == "n" else match[1], value)


async def _scrape(address: Address) -> bytes | None:
    """Scrape one broker; None if it does not respond in time."""
    try:
        async with asyncio.timeout(_SCRAPE_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(*address)
            try:
                writer.write(f"GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n".encode())
                text = bytearray()
                while len(text) < _SCRAPE_BYTES_MAX and (part := await reader.read(65536)):
                    text += part
                return bytes(text)
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return None
