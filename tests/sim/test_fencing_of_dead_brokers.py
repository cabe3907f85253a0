"""A broker whose process has ended is fenced long before its session times out."""

from __future__ import annotations

import pytest

from ruslo.testing.simulation.clock import SimClock
from ruslo.testing.simulation.nodes.cluster import SimCluster
from ruslo.testing.simulation.nodes.host import SimHost

PROPERTIES = {"broker.heartbeat.interval.ms": "20000", "broker.session.timeout.ms": "60000"}
FENCED_WITHIN_MS = 1_000
ELECTED_WITHIN_MS = 3_000


def active_controller(cluster: SimCluster) -> SimHost | None:
    for host in cluster.hosts.values():
        if host.node is not None and host.node.controller is not None and host.node.controller.is_active:
            return host
    return None


def is_fenced(cluster: SimCluster, dead: SimHost) -> bool:
    """Whether the other nodes know the broker as fenced."""
    images = [host.node.metadata.image for host in cluster.hosts.values() if host.node is not None]
    return all(image.cluster.brokers[dead.id].fenced for image in images)


@pytest.mark.parametrize("pause_ms", [0, 3_000])
def test_a_broker_that_ends_between_an_election_and_its_next_heartbeat_is_fenced_at_once(
    pause_ms: int,
) -> None:
    clock = SimClock(pause_ms)
    # Five nodes, so a majority of the voters is left.
    cluster = SimCluster(clock, nodes=5, properties=PROPERTIES)
    cluster.start()
    first = active_controller(cluster)
    assert first is not None
    first.kill()
    assert cluster.run_until(lambda: active_controller(cluster) is not None, ELECTED_WITHIN_MS)
    second = active_controller(cluster)
    clock.run_for(pause_ms)
    dead = next(host for host in cluster.hosts.values() if host not in (first, second))
    dead.kill()
    assert cluster.run_until(lambda: is_fenced(cluster, dead), FENCED_WITHIN_MS)
    assert cluster.run_until(lambda: is_fenced(cluster, first), FENCED_WITHIN_MS)
