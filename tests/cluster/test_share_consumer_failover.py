"""The share consumer while the leaders and coordinators of its group are killed."""

from __future__ import annotations

from ruslo.client.share.share_consumer import ShareConsumer
from ruslo.testing import EmbeddedCluster
from tests.support.share.share_node import (
    SHARE_NODE_PROPERTIES,
    new_share_group,
    new_topic,
    send,
)


def test_no_record_is_lost_when_each_broker_is_killed_in_turn() -> None:
    with EmbeddedCluster(3, SHARE_NODE_PROPERTIES) as cluster:
        topic = new_topic(cluster.bootstrap, 3, replicas=3)
        group = new_share_group(cluster.bootstrap)
        expected = {str(number) for number in range(30)}
        send(cluster.bootstrap, topic, sorted(expected))
        config: dict[str, str | int] = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "request.timeout.ms": 2000,
        }
        seen: set[str] = set()

        def read_all(consumer: ShareConsumer) -> None:
            while seen != expected:
                for record in consumer.poll(1):
                    seen.add((record.value or b"").decode())
                    record.accept()

        with ShareConsumer(config) as consumer:
            consumer.subscribe([topic])
            read_all(consumer)
            for node_id in cluster.node_ids:
                cluster.kill(node_id)
                fresh = {f"{node_id}-{number}" for number in range(20)}
                send(cluster.bootstrap, topic, sorted(fresh))
                expected |= fresh
                read_all(consumer)
                cluster.restart(node_id)
                cluster.wait_until_in_sync(topic, "__share_group_state", "__consumer_offsets")
            consumer.commit()
        assert seen == expected
