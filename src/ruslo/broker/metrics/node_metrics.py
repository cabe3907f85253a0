"""The metrics of one node: the counters of its parts, and the sources that a scrape reads.

The listener opens before anything else of the node, so that a long start can be watched; sources are added as
the parts of the node start.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Awaitable, Callable, Iterable, Iterator
from importlib.metadata import version

from ruslo.broker.counters.api_stats import RequestStats
from ruslo.broker.counters.traffic import Traffic
from ruslo.broker.metrics import catalog
from ruslo.broker.metrics.exposition import Family, Sample, labels_text, render, single
from ruslo.broker.metrics.listener import Health, MetricsListener
from ruslo.broker.metrics.loop_watch import LoopWatch
from ruslo.broker.metrics.process_source import loop_families, process_families
from ruslo.broker.metrics.traffic_source import request_families
from ruslo.broker.scheduling.scheduler import Priority, Scheduler
from ruslo.config.broker import BrokerConfig
from ruslo.config.validators import split_host_port
from ruslo.model.clock import Clock
from ruslo.model.errors import ConfigError
from ruslo.net.server import TlsListener

Source = Callable[[], Iterable[Family]]
LISTENER_KEY = "ruslo.metrics.listener"

logger = logging.getLogger(__name__)


class NodeMetrics:
    def __init__(
        self, config: BrokerConfig, health: Callable[[], Health], clock: Clock, scheduler: Scheduler
    ) -> None:
        self._config = config
        self._health = health
        self._scheduler = scheduler
        self.requests = RequestStats(clock)
        self.traffic = Traffic()
        self.loop = LoopWatch(clock)
        self.address: str | None = None
        """``host:port`` of the listener; None without one."""
        self._cluster_id = ""
        self._listener = MetricsListener(self._render, health)
        self._before: list[Callable[[], Awaitable[None]]] = []
        self._sources: list[Source] = [
            self._own_families,
            process_families,
            lambda: loop_families(self.loop),
            lambda: request_families(self.requests),
        ]

    async def start(self, tls: TlsListener | None = None) -> None:
        """``tls``: the listener serves HTTPS.

        Raises ConfigError if the user configured the address and it cannot be used.
        """
        self.loop.start()
        address = self._config.opt_str(LISTENER_KEY)
        if not address:
            return
        parts = split_host_port(address)
        assert parts is not None, "the configuration was checked"
        host, port = parts
        try:
            actual = await self._listener.listen(host, port, tls)
        except ConfigError as error:
            if self._config.is_set(LISTENER_KEY):
                raise
            # It is the default address: a second node on the host must start without metrics.
            logger.warning("%s", error)
            return
        self.address = f"[{host}]:{actual}" if ":" in host else f"{host}:{actual}"
        logger.info("metrics at %s://%s/metrics", "http" if tls is None else "https", self.address)

    async def stop(self) -> None:
        self.loop.stop()
        await self._listener.close()

    def add(self, source: Source, before: Callable[[], Awaitable[None]] | None = None) -> None:
        """``source`` returns the families of a scrape; ``before`` is awaited first."""
        self._sources.append(source)
        if before is not None:
            self._before.append(before)

    def belongs_to(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id

    async def _render(self) -> bytes:
        for prepare in self._before:
            await prepare()
        families = (family for source in tuple(self._sources) for family in source())
        return await self._scheduler.run(render(families), priority=Priority.BACKGROUND, name="a scrape")

    def _own_families(self) -> Iterator[Family]:
        yield single(catalog.READY, int(self._health().ready))
        labels = {
            "version": version("ruslo"),
            "python": platform.python_version(),
            "node_id": self._config.node_id,
            "cluster_id": self._cluster_id,
        }
        yield Family(catalog.BUILD_INFO, [Sample(labels_text(labels), 1)])
