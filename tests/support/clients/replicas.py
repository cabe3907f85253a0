"""Leaders and in-sync replicas from a client's metadata."""

from __future__ import annotations

import time
from collections import Counter

from confluent_kafka.admin import AdminClient


def wait_until_in_sync(bootstrap: str, topic: str, copies: int = 3, timeout_s: float = 60) -> None:
    """Wait until every partition of a topic has this many in-sync replicas."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deadline = time.monotonic() + timeout_s
    while True:
        partitions = admin.list_topics(topic, timeout=30).topics[topic].partitions
        if partitions and all(len(each.isrs) == copies for each in partitions.values()):
            return
        if time.monotonic() > deadline:
            in_sync = {index: each.isrs for index, each in partitions.items()}
            raise TimeoutError(f"{topic} has not {copies} in-sync replicas everywhere: {in_sync}")
        time.sleep(0.05)


def busiest_leader(bootstrap: str, topic: str) -> int:
    """The broker that leads most partitions of a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    partitions = admin.list_topics(topic, timeout=30).topics[topic].partitions
    return Counter(each.leader for each in partitions.values()).most_common(1)[0][0]
