from __future__ import annotations

import pytest

from ruslo.client.settings.bootstrap_servers import Address
from ruslo.client.views.broker_metrics import address_for, read_gauges
from ruslo.client.wire.metadata import Node

EXPOSITION = b"""\
HTTP/1.0 200 OK\r
\r
# TYPE ruslo_depth gauge
ruslo_depth{group="a \\"b\\" \\\\c",topic="t",partition="0"} 3
ruslo_depth{group="g",topic="t",partition="11"} 1.5e+02
ruslo_depth_of_others{group="g"} 7
ruslo_up 1
"""


def test_gauges_by_labels() -> None:
    labels = ("group", "topic", "partition")
    assert read_gauges(EXPOSITION, "ruslo_depth", labels) == {
        ('a "b" \\c', "t", "0"): 3.0,
        ("g", "t", "11"): 150.0,
    }
    assert read_gauges(EXPOSITION, "ruslo_depth", ("group", "node")) == {}
    assert read_gauges(EXPOSITION, "ruslo_absent", labels) == {}


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
