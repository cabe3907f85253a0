"""Metrics as text, in the format that Prometheus reads (version 0.0.4).

Ours, because a broker with thousands of partitions has tens of thousands of samples: they are written in
short turns on the event loop, so that clients never wait for a scrape. In a thread it would be worse: each
time the loop comes back from the kernel it would have to wait for the interpreter's lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from time import perf_counter
from typing import NamedTuple

from ruslo.broker.counters.durations import Durations
from ruslo.broker.metrics.catalog import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TURN_S = 0.002
_LOOK_EVERY = 64

SHOWN_BITS = range(16, 36)
"""Buckets of durations: from 66 µs to 34 s."""


class Sample(NamedTuple):
    labels: str
    """As ``labels_text`` writes them."""
    value: float
    suffix: str = ""


class Family(NamedTuple):
    """All samples of a metric. They are taken one by one while other work goes on: what they come from must
    not be a collection that changes."""

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


async def render(families: Iterable[Family]) -> bytes:
    out: list[str] = []
    until_s = perf_counter() + TURN_S
    for metric, samples in families:
        name = metric.name
        out.append(f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n")
        for at, (labels, value, suffix) in enumerate(samples):
            out.append(f"{name}{suffix}{labels} {value}\n")
            if at % _LOOK_EVERY == 0 and perf_counter() > until_s:
                await asyncio.sleep(0)
                until_s = perf_counter() + TURN_S
    return "".join(out).encode()
