from __future__ import annotations

import pytest

from ruslo.client.settings.bootstrap_servers import Address
from ruslo.client.wire.metadata import Node
from ruslo.console.produce_latency import Total, address_for, read_total

EXPOSITION = b"""\
kafka_network_requestmetrics_totaltimems_sum{request="Metadata"} 9.1
kafka_network_requestmetrics_totaltimems_count{request="Metadata"} 3
kafka_network_requestmetrics_totaltimems_sum{request="Produce"} 1.5e+02
kafka_network_requestmetrics_totaltimems_count{request="Produce"} 60
"""


def test_only_produce_metrics_are_read() -> None:
    assert read_total(EXPOSITION) == Total(150.0, 60.0)
    assert read_total(b"HTTP/1.0 404 Not Found\r\n\r\n") is None


@pytest.mark.parametrize(
    ("node", "listener", "expected"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("localhost", "127.0.0.1", "127.0.0.1"),
        ("broker-1", "0.0.0.0", "broker-1"),
        ("broker-1", "::", "broker-1"),
        ("broker-1", "broker-1", "broker-1"),
        ("broker-1", "127.0.0.1", None),
        ("broker-1", "10.0.0.9", None),
    ],
)
def test_metrics_are_scraped_from_the_node_only(node: str, listener: str, expected: str | None) -> None:
    found = address_for(Node(1, node, 9092, None), Address(listener, 9404))
    assert found == (None if expected is None else Address(expected, 9404))
