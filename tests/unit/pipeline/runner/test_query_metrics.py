from __future__ import annotations

from typing import Any

from ruslo.pipeline.runner.query_metrics import QueryMetrics


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


def test_batches_are_summed() -> None:
    metrics = QueryMetrics()
    metrics.add(report(0, 100, 40))
    metrics.add(report(1, 50, 0))
    assert (metrics.batches, metrics.records_in, metrics.records_out) == (2, 150, 40)
    assert (metrics.in_per_second, metrics.out_per_second, metrics.batch_ms) == (250.0, 0.0, 200)
    assert (metrics.lag_records, metrics.last_batch_id) == (6, 1)


def test_an_idle_stream_reports_its_lag_and_no_batch() -> None:
    metrics = QueryMetrics()
    metrics.add(report(0, 100, 40))
    idle = report(1, 0, 0, durationMs={"latestOffset": 3, "triggerExecution": 3}, observedMetrics={})
    idle["sources"][0]["endOffset"] = offsets(p0=12, p1=9)
    metrics.add(idle)
    assert (metrics.batches, metrics.in_per_second, metrics.lag_records) == (1, 0.0, 0)


def test_offsets_may_be_text_and_those_of_other_sources_are_ignored() -> None:
    metrics = QueryMetrics()
    text = {
        "endOffset": '{"t":{"id":"","offsets":{"0":1}}}',
        "latestOffset": '{"t":{"id":"","offsets":{"0":4}}}',
    }
    metrics.add(report(0, 1, 1, sources=[text, {"endOffset": {"logOffset": 3}, "latestOffset": None}]))
    assert metrics.lag_records == 3
    metrics.add(report(1, 1, 1, sources=[{"endOffset": "not JSON", "latestOffset": "7"}]))
    assert metrics.lag_records is None


def test_reports_over_spark_connect_have_the_same_metrics() -> None:
    """They lack the sum over the sources, and metrics are rows with the names in their schema."""
    over_connect = report(0, 0, 0, observedMetrics={"ruslo_out": {"values": [40], "schema": {}}})
    del over_connect["numInputRows"]
    over_connect["sources"] = [{"numInputRows": 70}, {"numInputRows": 30}]
    metrics = QueryMetrics()
    metrics.add(over_connect)
    assert (metrics.records_in, metrics.records_out) == (100, 40)
