"""The mean latency of Produce requests, from the metrics of Ruslo's brokers.

Fetch is left out: its latency is mostly the time that consumers wait for records.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ruslo.client.admin.admin import Admin
from ruslo.client.views.broker_metrics import BrokerMetrics
from ruslo.client.wire.metadata import Node

_PRODUCE_METRIC = re.compile(
    rb'kafka_network_requestmetrics_totaltimems_(sum|count)\{request="Produce"\} ([0-9.e+-]+)'
)


class Total(NamedTuple):
    milliseconds: float
    requests: float


class ProduceLatency:
    def __init__(self, admin: Admin) -> None:
        self._metrics = BrokerMetrics(admin)
        self._before: dict[int, Total] = {}

    async def measure(self, nodes: Mapping[int, Node]) -> float | None:
        """The mean since the last call over all brokers, in ms; None without metrics or requests."""
        scraped = {node_id: read_total(text) for node_id, text in (await self._metrics.scrape(nodes)).items()}
        totals = {node_id: total for node_id, total in scraped.items() if total is not None}
        before, self._before = self._before, totals
        # The counters of a restarted broker start at 0.
        deltas = [
            (total.milliseconds - before[node_id].milliseconds, total.requests - before[node_id].requests)
            for node_id, total in totals.items()
            if node_id in before and total.requests > before[node_id].requests
        ]
        requests = sum(count for _, count in deltas)
        return sum(took for took, _ in deltas) / requests if requests else None


def read_total(text: bytes) -> Total | None:
    """The totals of Produce requests in the exposition, or None."""
    figures = {match[1]: float(match[2]) for match in _PRODUCE_METRIC.finditer(text)}
    return Total(figures[b"sum"], figures[b"count"]) if len(figures) == 2 else None
