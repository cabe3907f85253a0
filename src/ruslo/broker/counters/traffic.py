"""Bytes, messages and requests of each topic on this broker: plain numbers that the hot path adds to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class TopicTraffic:
    """The counters that all partitions of a topic share; they only grow while the process runs."""

    appends: int = 0
    bytes_in: int = 0
    messages_in: int = 0
    failed_produces: int = 0
    fetches: int = 0
    bytes_out: int = 0
    failed_fetches: int = 0
    share_fetches: int = 0
    failed_share_fetches: int = 0
    share_acknowledgements: int = 0
    failed_share_acknowledgements: int = 0
    replication_bytes_in: int = 0
    replication_bytes_out: int = 0

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
