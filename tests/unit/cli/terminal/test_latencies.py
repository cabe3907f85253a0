from __future__ import annotations

import random

import pytest

from ruslo.cli.terminal.latencies import PERCENTILES, Latencies


def test_nothing_measured() -> None:
    latencies = Latencies()
    assert latencies.as_json() == {"p50": 0.0, "p90": 0.0, "p99": 0.0, "p99.9": 0.0, "max": 0.0, "mean": 0.0}


@pytest.mark.parametrize("scale_s", [0.0001, 0.01, 3.0])
def test_percentiles_are_within_a_percent(scale_s: float) -> None:
    rng = random.Random(7)
    samples = sorted(rng.expovariate(1 / scale_s) for _ in range(20_000))
    latencies = Latencies()
    for sample in samples:
        latencies.add(sample)
    for percent in PERCENTILES:
        exact_ms = samples[int(len(samples) * percent / 100) - 1] * 1000
        assert latencies.percentile_ms(percent) == pytest.approx(exact_ms, rel=0.01, abs=0.002)
    assert latencies.max_ms == pytest.approx(samples[-1] * 1000, abs=0.001)
    assert latencies.mean_ms == pytest.approx(sum(samples) / len(samples) * 1000, rel=0.02)
    assert latencies.count == 20_000


def test_text() -> None:
    latencies = Latencies()
    latencies.add(0.002)
    assert latencies.as_text() == "p50 2.00, p90 2.00, p99 2.00, p99.9 2.00, max 2.00 ms"
