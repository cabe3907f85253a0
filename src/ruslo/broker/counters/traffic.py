"""Bytes, messages and requests of each topic on this broker: plain numbers that the hot path adds to."""

from __future__ import annotations


class TopicTraffic:
    """The counters that all partitions of a topic share; they only grow while the process runs."""

    __slots__ = (
        "appends",
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "replication_bytes_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.appends = 0
        self.bytes_in = 0
        self.messages_in = 0
        self.failed_produces = 0
        self.fetches = 0
        self.bytes_out = 0
        self.failed_fetches = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0

    def add(self, other: TopicTraffic) -> None:
        for name in TopicTraffic.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Traffic:
    """The counters of all topics. Those of removed topics stay in the total, which must not decrease."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicTraffic] = {}
        self._removed = TopicTraffic()

    def of(self, topic: str) -> TopicTraffic:
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicTraffic()
        return found

    def forget(self, topic: str) -> None:
        """The topic is deleted, or this broker hosts no partition of it any more."""
        removed = self.topics.pop(topic, None)
        if removed is not None:
            self._removed.add(removed)

    def total(self) -> TopicTraffic:
        total = TopicTraffic()
        total.add(self._removed)
        for each in self.topics.values():
            total.add(each)
        return total
