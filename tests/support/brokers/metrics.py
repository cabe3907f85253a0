"""The metrics of a node, read by Prometheus' own parser."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families

from ruslo.broker.node.node import Node

Labels = frozenset[tuple[str, str]]


class Scrape:
    """One response of ``/metrics``."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self._values: dict[tuple[str, Labels], float] = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    @property
    def sample_names(self) -> set[str]:
        return {name for name, _ in self._values}

    def value(self, name: str, **labels: object) -> float | None:
        return self._values.get((name, frozenset((key, str(value)) for key, value in labels.items())))

    def labels_of(self, name: str) -> Iterable[dict[str, str]]:
        return [dict(labels) for each, labels in self._values if each == name]


async def http_request(
    address: str, path: str, method: str = "GET", context: ssl.SSLContext | None = None
) -> tuple[int, str]:
    """Return the status and body of the response."""
    request = f"{method} {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"
    status, _, body = await raw_http_request(address, request.encode(), context)
    return status, body


async def raw_http_request(
    address: str, request: bytes, context: ssl.SSLContext | None = None
) -> tuple[int, str, str]:
    """Return status, head and body; status 0 if the connection ended without a response."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=context)
    try:
        writer.write(request)
        response = (await reader.read()).decode()
    except ConnectionError:
        response = ""
    finally:
        writer.close()
    head, _, body = response.partition("\r\n\r\n")
    return int(head.split()[1]) if head else 0, head, body


async def scrape(node: Node) -> Scrape:
    assert node.metrics.address is not None
    status, body = await http_request(node.metrics.address, "/metrics")
    assert status == 200, body
    return Scrape(body)
