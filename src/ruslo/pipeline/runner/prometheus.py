"""Exports the metrics of running pipelines to Prometheus: ``http://HOST:PORT/metrics``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from ruslo.pipeline.runner.pipeline_run import PipelineRun

_PREFIX = "ruslo_pipeline_"
_LABELS = ("pipeline", "sink")
_COUNTERS = {
    "records_in": "Records read.",
    "records_out": "Rows written to the sink.",
    "batches": "Batches done.",
}
_GAUGES = {
    "in_per_second": "Records read per second of the last batch.",
    "out_per_second": "Rows written per second of the last batch.",
    "lag_records": "Records in the topics that were not read yet.",
}


class PipelineCollector(Collector):
    """Reads the metrics during a scrape, so queries spend no time on it."""

    def __init__(self, runs: Sequence[PipelineRun]) -> None:
        self._runs = runs

    def collect(self) -> Iterator[Metric]:
        queries = [(run.pipeline.name, query) for run in self._runs for query in run.runs]
        for family, docs in ((CounterMetricFamily, _COUNTERS), (GaugeMetricFamily, _GAUGES)):
            for field, doc in docs.items():
                metric = family(_PREFIX + field, doc, labels=_LABELS)
                for pipeline, query in queries:
                    value = getattr(query.metrics, field)
                    if value is not None:
                        metric.add_metric((pipeline, query.output.name), value)
                yield metric
        duration = GaugeMetricFamily(
            _PREFIX + "batch_seconds", "How long the last batch took.", labels=_LABELS
        )
        restarts = CounterMetricFamily(_PREFIX + "restarts", "Restarts after a failure.", labels=_LABELS)
        state = GaugeMetricFamily(_PREFIX + "state", "1 for the current state.", labels=(*_LABELS, "state"))
        for pipeline, query in queries:
            labels = (pipeline, query.output.name)
            duration.add_metric(labels, query.metrics.batch_ms / 1000)
            restarts.add_metric(labels, query.restarts)
            state.add_metric((*labels, str(query.state)), 1)
        yield from (duration, restarts, state)
        dead = CounterMetricFamily(
            _PREFIX + "dead_letters", "Records that could not be decoded.", labels=["pipeline"]
        )
        for run in self._runs:
            if run.dead_letters is not None:
                dead.add_metric([run.pipeline.name], run.dead_letters)
        yield dead


@contextlib.contextmanager
def metrics_server(
    runs: Sequence[PipelineRun], port: int | None, host: str = "127.0.0.1"
) -> Iterator[int | None]:
    """Serve metrics; yields the port (0 chooses a free one). Without a port nothing is started."""
    if port is None:
        yield None
        return
    registry = CollectorRegistry()
    registry.register(PipelineCollector(runs))
    server, thread = start_http_server(port, addr=host, registry=registry)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
