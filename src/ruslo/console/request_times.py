"""How long brokers take for a Produce request, from the metrics of those that have them, as Ruslo's nodes do.

Fetch is left out: its time is mostly that of consumers who wait for something to come.
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
_ASK_AGAIN_S = 60.0
_ANSWER_WITHIN_S = 1.0
_ANSWER_MAX_BYTES = 4 * 1024 * 1024
_FIGURE = re.compile(
    rb'kafka_network_requestmetrics_totaltimems_(sum|count)\{request="Produce"\} ([0-9.e+-]+)'
)


class Total(NamedTuple):
    milliseconds: float
    requests: float


class RequestTimes:
    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._addresses: dict[int, Address | None] = {}
        self._asked_s = 0.0
        self._before: dict[int, Total] = {}

    async def look(self, nodes: Mapping[int, Node]) -> float | None:
        """The mean since the last look, over all brokers, in ms; None when nobody tells, or nothing came."""
        if time.monotonic() - self._asked_s > _ASK_AGAIN_S:
            found = await asyncio.gather(*(self._address(node) for node in nodes.values()))
            self._addresses = dict(zip(nodes, found, strict=True))
            self._asked_s = time.monotonic()
        asked = {node_id: address for node_id, address in self._addresses.items() if address is not None}
        answers = await asyncio.gather(*(_scrape(address) for address in asked.values()))
        totals = {node_id: total for node_id, total in zip(asked, answers, strict=True) if total is not None}
        before, self._before = self._before, totals
        # A broker that was started again counts from nothing.
        grown = [
            (total.milliseconds - before[node_id].milliseconds, total.requests - before[node_id].requests)
            for node_id, total in totals.items()
            if node_id in before and total.requests > before[node_id].requests
        ]
        requests = sum(count for _, count in grown)
        return sum(took for took, _ in grown) / requests if requests else None

    async def _address(self, node: Node) -> Address | None:
        try:
            entries = await self._admin.configs.describe(Resource.broker(node.id), [_LISTENER])
            value = next((entry.value for entry in entries if entry.name == _LISTENER), None)
            return address_for(node, parse_bootstrap(value)[0]) if value else None
        except (KafkaError, ConfigError):
            return None  # another broker's settings know no such thing; port 0 tells nothing


def address_for(node: Node, listener: Address) -> Address | None:
    """Where a node's metrics can be had from here; None where that would be another machine than the node."""
    try:
        is_wildcard = ipaddress.ip_address(listener.host).is_unspecified
    except ValueError:
        is_wildcard = False
    if is_wildcard:
        return Address(node.host, listener.port)
    same = listener.host == node.host or (is_loopback(listener.host) and is_loopback(node.host))
    return listener if same else None


def read_total(text: bytes) -> Total | None:
    """What the exposition says about Produce; None when it says nothing."""
    figures = {match[1]: float(match[2]) for match in _FIGURE.finditer(text)}
    return Total(figures[b"sum"], figures[b"count"]) if len(figures) == 2 else None


async def _scrape(address: Address) -> Total | None:
    """A figure that cannot be had must not hold up those that can."""
    try:
        async with asyncio.timeout(_ANSWER_WITHIN_S):
            reader, writer = await asyncio.open_connection(*address)
            try:
                writer.write(f"GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n".encode())
                text = bytearray()
                while len(text) < _ANSWER_MAX_BYTES and (part := await reader.read(65536)):
                    text += part
                return read_total(bytes(text))
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return None
