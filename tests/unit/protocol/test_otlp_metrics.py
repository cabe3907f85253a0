"""OTLP metrics are decoded within limits, and malformed bytes only raise ProtocolError."""

from __future__ import annotations

import random
import struct
from collections.abc import Generator
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruslo.model.errors import ProtocolError
from ruslo.protocol import otlp_metrics
from ruslo.protocol.otlp_metrics import HistogramPoint, NumberPoint, Point, decode_metrics
from tests.support.protocol.mutations import mutated
from tests.support.telemetry.otlp import (
    CUMULATIVE,
    attributes,
    counter,
    double,
    gauge,
    histogram,
    metrics_data,
    nested,
    number,
    point,
    text,
    varint,
)

T = TypeVar("T")


def finished(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def decoded(data: bytes) -> list[Point]:
    return finished(decode_metrics(data))


SAMPLE = metrics_data(
    gauge("org.apache.kafka.consumer.lag", point(1.5, topic="t", partition=3), point(-7)),
    counter("org.apache.kafka.consumer.records", point(12, fast=True, share=0.5)),
    counter("cumulative", point(9), temporality=CUMULATIVE, monotonic=False),
    histogram("latency", [1.0, 10.0], [4, 2, 1], 33.5, CUMULATIVE, node="1"),
    group_id="billing",
)


def test_gauges_sums_and_histograms() -> None:
    of_resource = {"group_id": "billing"}
    assert decoded(SAMPLE) == [
        NumberPoint(
            "org.apache.kafka.consumer.lag",
            {**of_resource, "topic": "t", "partition": "3"},
            1.5,
            False,
            False,
        ),
        NumberPoint("org.apache.kafka.consumer.lag", of_resource, -7, False, False),
        NumberPoint(
            "org.apache.kafka.consumer.records",
            {**of_resource, "fast": "true", "share": "0.5"},
            12,
            True,
            True,
        ),
        NumberPoint("cumulative", of_resource, 9, False, False),
        HistogramPoint("latency", {**of_resource, "node": "1"}, (1.0, 10.0), (4, 2, 1), 33.5, False),
    ]
    assert decoded(b"") == []


def test_resource_may_follow_its_metrics() -> None:
    scope = nested(2, gauge("a", point(1)))
    (found,) = decoded(nested(1, scope, nested(1, attributes(1, {"rack": "b"}))))
    assert found.attributes == {"rack": "b"}


def test_unknown_fields_and_points_without_value_are_skipped() -> None:
    unknown = text(90, "x") + number(91, 1 << 63) + double(92, 1.0) + varint(93 << 3 | 5) + b"\0" * 4
    without_value = nested(1, attributes(7, {"topic": "t"}))
    metric = nested(2, unknown, text(1, "a"), nested(5, unknown, without_value, point(1)))
    summary = nested(2, text(1, "s"), nested(11, nested(1, b"\xff")))
    (found,) = decoded(unknown + nested(1, unknown, nested(2, unknown, metric, summary)))
    assert found == NumberPoint("a", {}, 1, False, False)


def test_long_texts_are_truncated() -> None:
    (found,) = decoded(metrics_data(gauge("n" * 300, point(1, topic="ä" * 5000))))
    assert found.name == "n" * otlp_metrics.MAX_TEXT_CHARS
    assert found.attributes == {"topic": "ä" * otlp_metrics.MAX_TEXT_CHARS}


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",
        b"\x0a\x05\x00",
        b"\x0a" + b"\xff" * 11,
        b"\x00\x00",
        b"\x0b",
        number(1, 5),
        metrics_data(nested(2, number(1, 5))),
        metrics_data(nested(2, nested(7, number(1, 1)))),
        metrics_data(nested(2, nested(5, nested(1, number(4, 1))))),
        metrics_data(nested(2, nested(5, nested(1, varint(4 << 3 | 1), b"\0\0")))),
        metrics_data(histogram("h", [1.0], [1], 1.0)),
        metrics_data(histogram("h", [2.0, 1.0], [1, 1, 1], 1.0)),
        metrics_data(histogram("h", [1.0], [1, -1], 1.0)),
        metrics_data(nested(2, nested(9, nested(1, nested(6, b"\0" * 7))))),
        metrics_data(histogram("h", [float(n) for n in range(300)], [0] * 301, 1.0)),
        metrics_data(gauge("a", point(1, **{f"a{n}": 1 for n in range(33)}))),
        metrics_data(gauge("a", nested(1, number(8, 0) * 1001))),
        metrics_data(gauge("a", nested(1, nested(7, number(8, 0) * 600) * 2))),
        metrics_data(gauge("a", nested(1) * 10_001)),
        nested(1, nested(2) * 10_001),
        nested(1, number(3, 0) * otlp_metrics.MAX_FIELDS),
    ],
    ids=range(21),
)
def test_malformed_and_oversized_payloads_are_rejected(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decoded(data)


def test_long_payloads_are_decoded_in_steps() -> None:
    data = metrics_data(gauge("a", *(point(n) for n in range(500))))
    assert sum(1 for _ in decode_metrics(data)) > 1000


def decode_or_reject(data: bytes) -> None:
    try:
        for each in decoded(data):
            assert len(each.name) <= otlp_metrics.MAX_TEXT_CHARS
            assert len(each.attributes) <= otlp_metrics.MAX_ATTRIBUTES
    except ProtocolError:
        pass


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_random_bytes_are_rejected_or_decoded(data: bytes) -> None:
    decode_or_reject(data)
    decode_or_reject(nested(1, nested(2, nested(2, data))))
    decode_or_reject(nested(1, nested(2, nested(2, nested(5, nested(1, data))))))


@settings(max_examples=200)
@given(st.integers(0, 1 << 32), st.integers(0, len(SAMPLE)))
def test_mutated_and_truncated_payloads_are_rejected_or_decoded(seed: int, length: int) -> None:
    decode_or_reject(mutated(random.Random(seed), [SAMPLE]))
    decode_or_reject(SAMPLE[:length])


def test_values_that_are_not_finite() -> None:
    found = decoded(metrics_data(gauge("a", point(float("inf")))))
    assert [struct.pack("<d", each.value) for each in found if isinstance(each, NumberPoint)] == [
        struct.pack("<d", float("inf"))
    ]
