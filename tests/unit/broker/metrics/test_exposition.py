"""The text that Prometheus reads, read by its own parser."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from ruslo.broker.counters.durations import Durations
from ruslo.broker.metrics.catalog import CATALOG, Metric
from ruslo.broker.metrics.exposition import Family, Sample, histogram_samples, labels_text, render, single
from tests.support.brokers.metrics import Scrape

PARSER_ENDS_LINES = set("\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")
GAUGE = Metric("some_gauge", "gauge", "Something.", ("a",))


def test_names_are_unique_and_follow_their_kind() -> None:
    names = [metric.name for metric in CATALOG]
    assert len(set(names)) == len(names)
    for metric in CATALOG:
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert metric.help.endswith("."), metric.name


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True))
def test_any_label_survives(values: list[str]) -> None:
    async def story() -> None:
        family = Family(GAUGE, [Sample(labels_text({"a": value}), at) for at, value in enumerate(values)])
        scrape = Scrape((await render([family])).decode())
        for at, value in enumerate(values):
            assert scrape.value("some_gauge", a=value) == at

    # The parser ends a line at these, which Prometheus itself does not.
    values = [
        value for value in values if not any(each in value for each in "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")
    ]
    asyncio.run(story())


async def test_a_histogram_has_bounds_sum_and_count() -> None:
    durations = Durations()
    for elapsed_ms in (0.01, 1, 1, 50, 100_000):
        durations.observe(int(elapsed_ms * 1e6))
    family = Family(
        Metric("took", "histogram", "Time."), histogram_samples(durations, {"request": "Produce"}, 1e6)
    )
    scrape = Scrape((await render([family])).decode())
    assert scrape.value("took_count", request="Produce") == 5
    assert scrape.value("took_bucket", request="Produce", le="+Inf") == 5
    assert scrape.value("took_bucket", request="Produce", le="1.048576") == 3
    assert scrape.value("took_bucket", request="Produce", le="0.065536") == 1
    assert scrape.value("took_sum", request="Produce") == 100_052.01


async def test_a_long_answer_leaves_turns_to_others() -> None:
    turns = 0
    done = False

    async def others() -> None:
        nonlocal turns
        while not done:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    samples = (Sample(labels_text({"a": at}), at) for at in range(50_000))
    text = await render([single(GAUGE, 1), Family(GAUGE, samples)])
    done = True
    await beside
    assert text.count(b"\n") == 50_005
    assert turns > 5
