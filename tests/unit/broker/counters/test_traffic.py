"""Traffic by topic, and a total that never decreases."""

from __future__ import annotations

from ruslo.broker.counters.traffic import Traffic


def test_total_includes_removed_topics() -> None:
    traffic = Traffic()
    traffic.of("a").bytes_in += 5
    traffic.of("b").bytes_in += 7
    traffic.of("b").failed_fetches += 1
    assert (traffic.total().bytes_in, traffic.total().failed_fetches) == (12, 1)
    traffic.forget("b")
    traffic.forget("never there")
    assert list(traffic.topics) == ["a"]
    assert (traffic.total().bytes_in, traffic.total().failed_fetches) == (12, 1)
    traffic.of("b").bytes_in += 1
    assert traffic.topics["b"].bytes_in == 1
    assert traffic.total().bytes_in == 13
