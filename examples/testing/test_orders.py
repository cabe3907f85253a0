"""A user's test with three nodes that loses one. Run it with ``pytest examples/testing``."""

from __future__ import annotations

from confluent_kafka import Producer

from ruslo.testing import EmbeddedCluster


def test_orders_survive_the_loss_of_their_leader(ruslo_cluster: EmbeddedCluster) -> None:
    producer = Producer({"bootstrap.servers": ruslo_cluster.bootstrap, "enable.idempotence": True})
    producer.produce("orders", b"before")
    assert producer.flush(30) == 0

    leader = ruslo_cluster.leader_of("orders")
    ruslo_cluster.kill(leader)
    producer.produce("orders", b"without the leader")
    assert producer.flush(30) == 0
    assert ruslo_cluster.leader_of("orders") != leader

    ruslo_cluster.restart(leader)
    ruslo_cluster.wait_until_in_sync("orders")
