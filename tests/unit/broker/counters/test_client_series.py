"""Pushes become series of bounded number, which last as long as the state of their client."""

from __future__ import annotations

from collections.abc import Callable

from ruslo.broker.counters.client_series import ClientSeries, Histogram, prometheus_name
from ruslo.protocol.otlp_metrics import HistogramPoint, NumberPoint, Point

A, B = b"a" * 16, b"b" * 16


def number(
    name: str, value: float, *, counter: bool = False, delta: bool = False, **attributes: str
) -> NumberPoint:
    return NumberPoint(name, attributes, value, counter, delta)


def push(
    series: ClientSeries, client: bytes, *points: Point, is_known: Callable[[], bool] = lambda: True
) -> None:
    for _ in series.update(client, {"client_id": client.decode()[:1]}, points, is_known):
        pass


def values(series: ClientSeries) -> dict[str, list[object]]:
    return {name: list(family.series.values()) for name, family in series.families.items()}


def test_names_stay_recognizable() -> None:
    name = "org.apache.kafka.consumer.fetch.manager.fetch.latency.avg"
    assert prometheus_name(name, is_counter=False) == "kafka_client_consumer_fetch_manager_fetch_latency_avg"
    assert prometheus_name("my.app/Bytes", is_counter=True) == "kafka_client_my_app_bytes_total"
    assert prometheus_name("a.total", is_counter=True) == "kafka_client_a_total"
    assert prometheus_name("…", is_counter=False) is None


def test_changes_are_added_up_and_gauges_replaced() -> None:
    series = ClientSeries()
    push(series, A, number("sent", 5, counter=True, delta=True), number("old", 1), number("lag", 3))
    push(
        series, A, number("sent", 2, counter=True, delta=True), number("lag", 4), number("lag", float("nan"))
    )
    assert values(series) == {"kafka_client_sent_total": [7], "kafka_client_lag": [4]}
    push(series, A, number("sent", 100, counter=True))
    assert values(series) == {"kafka_client_sent_total": [100]}


def test_histograms() -> None:
    series = ClientSeries()
    for _ in range(2):
        push(series, A, HistogramPoint("h", {}, (1.0,), (2, 1), 5.0, True))
    ((found,),) = values(series).values()
    assert isinstance(found, Histogram)
    assert (found.bounds, found.counts, found.total) == ((1.0,), (4, 2), 10.0)
    push(series, A, number("h.count", 1), number("h", 1))
    assert series.dropped == 2
    push(series, B, number("g.sum", 1), HistogramPoint("g", {}, (), (), 0.0, False))
    assert series.dropped == 3


def test_attributes_never_replace_the_labels_of_the_client() -> None:
    series = ClientSeries()
    attributes = {"client.id": "forged", "le": "1", "0x": "2", "__name__": "b", "member_id": "m"}
    push(series, A, NumberPoint("a", attributes, 1, False, False))
    (family,) = series.families.values()
    assert list(family.series) == [
        (("client_id", "a"), ("attribute_0x", "2"), ("attribute_le", "1"), ("name", "b"))
    ]


def test_kinds_do_not_mix() -> None:
    series = ClientSeries()
    push(series, A, number("a.total", 1))
    push(series, B, number("a", 1, counter=True))
    push(series, A, number("a", 1, counter=True))
    assert (series.count, series.dropped) == (0, 2)
    push(series, B, number("a", 1, counter=True))
    assert values(series) == {"kafka_client_a_total": [1]}


def test_series_of_a_removed_client_are_gone() -> None:
    series = ClientSeries()
    push(series, A, number("a", 1), number("b", 1))
    push(series, B, number("a", 2))
    series.remove(A)
    series.remove(A)
    assert values(series) == {"kafka_client_a": [2]}
    assert series.count == 1


def test_a_client_that_is_removed_during_its_push_leaves_nothing() -> None:
    series = ClientSeries()
    answers = iter([True, False, False])
    push(series, A, number("a", 1), number("b", 1), is_known=lambda: next(answers))
    assert (values(series), series.count) == ({}, 0)
    push(series, A, number("older", 1))
    steps = series.update(A, {}, [number("a", 1), number("b", 1)], lambda: True)
    next(steps)
    series.remove(A)
    push(series, A, number("c", 1))
    assert not list(steps)
    assert values(series) == {"kafka_client_c": [1]}


def test_series_are_limited() -> None:
    series = ClientSeries(max_series=3, max_series_per_client=2)
    push(series, A, *(number(f"a{each}", 1) for each in range(5)))
    push(series, B, *(number(f"b{each}", 1) for each in range(5)))
    assert (series.count, series.dropped) == (3, 7)
    push(series, A, number("a0", 2), number("a1", 2))
    assert series.families["kafka_client_a1"].series.popitem()[1] == 2
