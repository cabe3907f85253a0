"""The mean latency of Produce requests, from the metrics of Ruslo's brokers.

Fetch is left out: its latency is mostly the time that consumers wait for records.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import time
from collections.abc import Mapping
from typing import NamedTuple

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.configs import Resource
from ruslo.client.settings.bootstrap_servers import Address, parse_bootstrap
from ruslo.client.wire.metadata import Node
from ruslo.console.settings import is_loopback
from ruslo.model.errors import ConfigError, KafkaError

_LISTENER = "ruslo.metrics.listener"
_PROTOCOL = "ruslo.metrics.security.protocol"
_ADDRESS_MAX_AGE_S = 60.0
_SCRAPE_TIMEOUT_S = 1.0
_SCRAPE_BYTES_MAX = 4 * 1024 * 1024
_PRODUCE_METRIC = re.compile(
    rb'kafka_network_requestmetrics_totaltimems_(sum|count)\{request="Produce"\} ([0-9.e+-]+)'
)


class Total(NamedTuple):
    milliseconds: float
    requests: float


class ProduceLatency:
    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._addresses: dict[int, Address | None] = {}
        self._updated_s = 0.0
        self._before: dict[int, Total] = {}

    async def measure(self, nodes: Mapping[int, Node]) -> float | None:
        """The mean since the last call over all brokers, in ms; None without metrics or requests."""
        if time.monotonic() - self._updated_s > _ADDRESS_MAX_AGE_S:
            found = await asyncio.gather(*(self._address(node) for node in nodes.values()))
            self._addresses = dict(zip(nodes, found, strict=True))
            self._updated_s = time.monotonic()
        known = {node_id: address for node_id, address in self._addresses.items() if address is not None}
        scraped = await asyncio.gather(*(_scrape(address) for address in known.values()))
        totals = {node_id: total for node_id, total in zip(known, scraped, strict=True) if total is not None}
        before, self._before = self._before, totals
        # The counters of a restarted broker start at 0.
        deltas = [
            (total.milliseconds - before[node_id].milliseconds, total.requests - before[node_id].requests)
            for node_id, total in totals.items()
            if node_id in before and total.requests > before[node_id].requests
        ]
        requests = sum(count for _, count in deltas)
        return sum(took for took, _ in deltas) / requests if requests else None

    async def _address(self, node: Node) -> Address | None:
        try:
            entries = await self._admin.configs.describe(Resource.broker(node.id), [_LISTENER])
            values = {entry.name: entry.value for entry in entries}
            if values.get(_PROTOCOL) == "SSL":
                return None  # the console has no certificate for it
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


def read_total(text: bytes) -> Total | None:
    """The totals of Produce requests in the exposition, or None."""
    figures = {match[1]: float(match[2]) for match in _PRODUCE_METRIC.finditer(text)}
    return Total(figures[b"sum"], figures[b"count"]) if len(figures) == 2 else None


async def _scrape(address: Address) -> Total | None:
    """Scrape one broker; None if it does not respond in time."""
    try:
        async with asyncio.timeout(_SCRAPE_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(*address)
            try:
                writer.write(f"GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n".encode())
                text = bytearray()
                while len(text) < _SCRAPE_BYTES_MAX and (part := await reader.read(65536)):
                    text += part
                return read_total(bytes(text))
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return None
