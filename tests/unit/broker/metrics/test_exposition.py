"""The text format of Prometheus, checked with Prometheus' own parser."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruslo.broker.counters.durations import Durations
from ruslo.broker.metrics.catalog import CATALOG, Metric
from ruslo.broker.metrics.exposition import Family, Sample, histogram_samples, labels_text, render, single
from tests.support.brokers.metrics import Scrape

PARSER_ENDS_LINES = set("\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")
GAUGE = Metric("some_gauge", "gauge", "Something.", ("a",))


def test_names_are_unique_and_match_their_type() -> None:
    names = [metric.name for metric in CATALOG]
    assert len(set(names)) == len(names)
    for metric in CATALOG:
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert metric.help.endswith("."), metric.name


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True))
def test_any_label_value_survives(values: list[str]) -> None:
    # The parser ends lines at these characters; Prometheus itself does not.
    values = [
        value for value in values if not any(each in value for each in "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")
    ]
    family = Family(GAUGE, [Sample(labels_text({"a": value}), at) for at, value in enumerate(values)])
    scrape = Scrape(_rendered(family))
    for at, value in enumerate(values):
        assert scrape.value("some_gauge", a=value) == at


def test_histogram_has_buckets_sum_and_count() -> None:
    durations = Durations()
    for elapsed_ms in (0.01, 1, 1, 50, 100_000):
        durations.observe(int(elapsed_ms * 1e6))
    family = Family(
        Metric("took", "histogram", "Time."), histogram_samples(durations, {"request": "Produce"}, 1e6)
    )
    scrape = Scrape(_rendered(family))
    assert scrape.value("took_count", request="Produce") == 5
    assert scrape.value("took_bucket", request="Produce", le="+Inf") == 5
    assert scrape.value("took_bucket", request="Produce", le="1.048576") == 3
    assert scrape.value("took_bucket", request="Produce", le="0.065536") == 1
    assert scrape.value("took_sum", request="Produce") == 100_052.01


def test_each_sample_is_a_step() -> None:
    samples = (Sample(labels_text({"a": at}), at) for at in range(5_000))
    steps = render([single(GAUGE, 1), Family(GAUGE, samples)])
    for _ in range(5_001):
        next(steps)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value.count(b"\n") == 5_005


def _rendered(family: Family) -> str:
    """The text, rendered with unlimited slices."""
    steps = render([family])
    while True:
        try:
            next(steps)
        except StopIteration as end:
            text: bytes = end.value
            return text.decode()
