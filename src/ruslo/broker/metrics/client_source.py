"""Families of client telemetry: the metrics that clients push, named as in ``counters/client_series``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ruslo.broker.counters.client_series import Histogram, Labels
from ruslo.broker.metrics import catalog
from ruslo.broker.metrics.catalog import Metric
from ruslo.broker.metrics.exposition import Family, Sample, labels_text, single

if TYPE_CHECKING:
    from ruslo.broker.telemetry.client_telemetry import ClientTelemetry


def client_families(telemetry: ClientTelemetry) -> Iterator[Family]:
    telemetry.expire()
    series = telemetry.series
    yield single(catalog.CLIENT_INSTANCES, len(telemetry.instances))
    yield single(catalog.UNKNOWN_SUBSCRIPTIONS, telemetry.instances.unknown_subscriptions)
    yield single(catalog.CLIENT_SERIES, series.count)
    yield single(catalog.DROPPED_CLIENT_SAMPLES, series.dropped)
    for name, family in list(series.families.items()):
        metric = Metric(name, family.kind, f"Pushed by clients as {_one_line(family.source_name)}.")
        yield Family(metric, _samples(list(family.series.items())))


def _samples(series: Sequence[tuple[Labels, float | Histogram]]) -> Iterator[Sample]:
    for labels, value in series:
        if isinstance(value, Histogram):
            yield from _histogram_samples(dict(labels), value)
        else:
            yield Sample(labels_text(dict(labels)), value)


def _histogram_samples(labels: dict[str, str], histogram: Histogram) -> Iterator[Sample]:
    count = 0
    for bound, observations in zip(histogram.bounds, histogram.counts, strict=False):
        count += observations
        yield Sample(labels_text({**labels, "le": repr(bound)}), count, "_bucket")
    count = sum(histogram.counts)
    yield Sample(labels_text({**labels, "le": "+Inf"}), count, "_bucket")
    yield Sample(labels_text(labels), histogram.total, "_sum")
    yield Sample(labels_text(labels), count, "_count")


def _one_line(name: str) -> str:
    return name.replace("\\", "\\\\").replace("\n", "\\n")
