from __future__ import annotations

from ruslo.console.produce_latency import Total, read_total

EXPOSITION = b"""\
kafka_network_requestmetrics_totaltimems_sum{request="Metadata"} 9.1
kafka_network_requestmetrics_totaltimems_count{request="Metadata"} 3
kafka_network_requestmetrics_totaltimems_sum{request="Produce"} 1.5e+02
kafka_network_requestmetrics_totaltimems_count{request="Produce"} 60
"""


def test_only_produce_metrics_are_read() -> None:
    assert read_total(EXPOSITION) == Total(150.0, 60.0)
    assert read_total(b"HTTP/1.0 404 Not Found\r\n\r\n") is None
