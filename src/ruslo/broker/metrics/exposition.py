"""Metrics as text, in the format that Prometheus reads (version 0.0.4).

A broker with thousands of partitions has tens of thousands of samples. The scheduler has them written in
slices, so clients never wait for a scrape. A thread would be worse: each time the event loop comes back from
the kernel it would have to wait for the interpreter lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ruslo.broker.counters.durations import Durations
from ruslo.broker.metrics.catalog import Metric
from ruslo.broker.scheduling.scheduler import Steps

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

SHOWN_BITS = range(16, 36)
"""Buckets of durations: from 66 µs to 34 s."""


class Sample(NamedTuple):
    labels: str
    """As ``labels_text`` writes them."""
    value: float
    suffix: str = ""


class Family(NamedTuple):
    """All samples of a metric. They are read one by one while other work goes on, so they must not come from
    a collection that changes."""

    metric: Metric
    samples: Iterable[Sample]


def labels_text(labels: Mapping[str, object]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def single(metric: Metric, value: float) -> Family:
    return Family(metric, (Sample("", value),))


def histogram_samples(durations: Durations, labels: Mapping[str, object], unit_ns: float) -> Iterator[Sample]:
    """``unit_ns``: of the bounds and the sum; 1e6 for milliseconds, 1e9 for seconds."""
    counts = durations.cumulative(SHOWN_BITS)
    total = durations.count
    for bits, count in zip(SHOWN_BITS, counts, strict=True):
        yield Sample(labels_text({**labels, "le": repr(2**bits / unit_ns)}), count, "_bucket")
    yield Sample(labels_text({**labels, "le": "+Inf"}), total, "_bucket")
    yield Sample(labels_text(labels), durations.total_ns / unit_ns, "_sum")
    yield Sample(labels_text(labels), total, "_count")


def render(families: Iterable[Family]) -> Steps[bytes]:
    out: list[str] = []
    for metric, samples in families:
        name = metric.name
        out.append(f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n")
        for labels, value, suffix in samples:
            out.append(f"{name}{suffix}{labels} {value}\n")
            yield
    return "".join(out).encode()
