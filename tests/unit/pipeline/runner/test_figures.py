from __future__ import annotations

from typing import Any

from ruslo.pipeline.runner.figures import Figures


def offsets(**partitions: int) -> dict[str, Any]:
    return {"orders": {"id": "x", "offsets": {name[1:]: offset for name, offset in partitions.items()}}}


def report(batch: int, rows_in: int, rows_out: int, **changes: Any) -> dict[str, Any]:
    return {
        "batchId": batch,
        "timestamp": f"2026-01-01T10:00:0{batch}Z",
        "numInputRows": rows_in,
        "durationMs": {"addBatch": 150, "triggerExecution": 200},
        "observedMetrics": {"ruslo_out": {"rows": rows_out}},
        "sources": [{"endOffset": offsets(p0=10, p1=5), "latestOffset": offsets(p0=12, p1=9)}],
    } | changes


def test_batches_add_up() -> None:
    figures = Figures()
    figures.add(report(0, 100, 40))
    figures.add(report(1, 50, 0))
    assert (figures.batches, figures.records_in, figures.records_out) == (2, 150, 40)
    assert (figures.in_per_second, figures.out_per_second, figures.batch_ms) == (250.0, 0.0, 200)
    assert (figures.lag_records, figures.last_batch_id) == (6, 1)


def test_a_stream_that_is_idle_reports_its_lag_and_no_batch() -> None:
    figures = Figures()
    figures.add(report(0, 100, 40))
    idle = report(1, 0, 0, durationMs={"latestOffset": 3, "triggerExecution": 3}, observedMetrics={})
    idle["sources"][0]["endOffset"] = offsets(p0=12, p1=9)
    figures.add(idle)
    assert (figures.batches, figures.in_per_second, figures.lag_records) == (1, 0.0, 0)


def test_offsets_may_come_as_text_and_others_are_left_alone() -> None:
    figures = Figures()
    text = {
        "endOffset": '{"t":{"id":"","offsets":{"0":1}}}',
        "latestOffset": '{"t":{"id":"","offsets":{"0":4}}}',
    }
    figures.add(report(0, 1, 1, sources=[text, {"endOffset": {"logOffset": 3}, "latestOffset": None}]))
    assert figures.lag_records == 3
    figures.add(report(1, 1, 1, sources=[{"endOffset": "not JSON", "latestOffset": "7"}]))
    assert figures.lag_records is None


def test_reports_that_came_over_spark_connect_tell_the_same() -> None:
    """They lack the sum over the sources, and metrics are rows whose names stand in their schema."""
    over_connect = report(0, 0, 0, observedMetrics={"ruslo_out": {"values": [40], "schema": {}}})
    del over_connect["numInputRows"]
    over_connect["sources"] = [{"numInputRows": 70}, {"numInputRows": 30}]
    figures = Figures()
    figures.add(over_connect)
    assert (figures.records_in, figures.records_out) == (100, 40)
