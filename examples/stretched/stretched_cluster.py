"""A cluster stretched over three racks (or zones, or sites) that loses one rack and no records.

- The cluster has six nodes, two per rack. Every partition has three replicas, one per rack.
- A record is acknowledged when two replicas have it, so every acknowledged record survives the loss of a
  rack, and two replicas remain.
- All nodes are controllers; the remaining four are a majority of six.
- A consumer with ``client.rack`` fetches from the replica in its rack, so its reads stay within the rack.

Run it: ``python examples/stretched/stretched_cluster.py``
"""

from __future__ import annotations

import threading
import time

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ruslo.testing import EmbeddedCluster

RACKS = ["north", "north", "middle", "middle", "south", "south"]
TOPIC = "payments"
PARTITIONS = 6
SETTINGS = {
    # Consumers with client.rack fetch from the replica in their rack (KIP-392).
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}


class Payments(threading.Thread):
    """Produces payments continuously and records those that were acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="payments")
        self.acknowledged: list[int] = []
        self.failed: list[str] = []
        self._stopped = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        )

    def run(self) -> None:
        number = 0
        while not self._stopped.is_set():
            self._producer.produce(
                TOPIC, str(number).encode(), partition=number % PARTITIONS, on_delivery=self._delivered
            )
            self._producer.poll(0.001)
            number += 1
        if self._producer.flush(60):
            self.failed.append("some payments were neither acknowledged nor rejected")

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def wait_for_more(self, count: int) -> None:
        wanted = len(self.acknowledged) + count
        while len(self.acknowledged) < wanted:
            time.sleep(0.01)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.append(int(message.value() or b""))
        else:
            self.failed.append(str(error))


def read_everything(bootstrap: str, rack: str) -> list[int]:
    """Read all payments with a consumer in this rack."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.rack": rack,
            "group.id": "audit",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    read: list[int] = []
    ended: set[int | None] = set()
    while len(ended) < PARTITIONS:
        for message in consumer.consume(1000, 1.0):
            if message.error() is None:
                read.append(int(message.value() or b""))
            else:
                ended.add(message.partition())
    consumer.close()
    return read


def racks_of_replicas(admin: AdminClient, cluster: EmbeddedCluster) -> list[set[str]]:
    """The racks of the replicas, per partition."""
    partitions = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions.values()
    rack_of = dict(zip(cluster.node_ids, RACKS, strict=True))
    return [{rack_of[replica] for replica in partition.replicas} for partition in partitions]


def main(lost_rack: str = "middle") -> None:
    with EmbeddedCluster(6, SETTINGS, racks=RACKS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        topic = NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=3)
        admin.create_topics([topic], operation_timeout=30)[TOPIC].result(30)
        assert all(racks == set(RACKS) for racks in racks_of_replicas(admin, cluster))
        print(f"every partition of {TOPIC} has a copy in each of {', '.join(dict.fromkeys(RACKS))}")

        payments = Payments(cluster.bootstrap)
        payments.start()
        payments.wait_for_more(1000)
        before = len(payments.acknowledged)
        cluster.kill(*(node for node, rack in zip(cluster.node_ids, RACKS, strict=True) if rack == lost_rack))
        print(f"rack {lost_rack} is lost, after {before} acknowledged payments")
        payments.wait_for_more(1000)
        payments.stop()
        print(f"{len(payments.acknowledged) - before} more were acknowledged without it")

        read = read_everything(cluster.bootstrap, "north")
        assert payments.failed == []
        assert sorted(read) == sorted(payments.acknowledged)
        print(f"{len(read)} payments read in rack north: every one that was acknowledged, each once")

        cluster.start()
        cluster.wait_until_in_sync(TOPIC)
        print(f"rack {lost_rack} is back, and all copies are in sync")


if __name__ == "__main__":
    main()
