"""What went in and out of each topic on this broker: plain numbers that the hot path adds to."""

from __future__ import annotations


class TopicTraffic:
    """Shared by all partitions of a topic; from the start of the process, so that it only grows."""

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
    """Of all topics. What topics have had that are gone stays in the total, which must not fall."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicTraffic] = {}
        self._gone = TopicTraffic()

    def of(self, topic: str) -> TopicTraffic:
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicTraffic()
        return found

    def forget(self, topic: str) -> None:
        """The topic is deleted, or has no partition here any more."""
        gone = self.topics.pop(topic, None)
        if gone is not None:
            self._gone.add(gone)

    def total(self) -> TopicTraffic:
        total = TopicTraffic()
        total.add(self._gone)
        for each in self.topics.values():
            total.add(each)
        return total
