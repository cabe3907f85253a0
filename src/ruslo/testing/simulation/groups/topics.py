"""Topics that are created, extended and deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ruslo.machines.groups.topics_view import TopicInfo
from ruslo.model.ids import Uuid


class SimTopics:
    """An immutable ``TopicsView``; a change returns a new one."""

    def __init__(self, topics: Mapping[str, TopicInfo] | None = None, version: int = 0) -> None:
        self._by_name = dict(topics or {})
        self._by_id = {topic.id: topic for topic in self._by_name.values()}
        self.version = version

    def by_name(self, name: str) -> TopicInfo | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: Uuid) -> TopicInfo | None:
        return self._by_id.get(topic_id)

    def all_names(self) -> Iterable[str]:
        return self._by_name

    def with_topic(self, name: str, partition_count: int) -> SimTopics:
        """The view with a topic that has this many partitions."""
        version = self.version + 1
        known = self._by_name.get(name)
        topic_id = version.to_bytes(16, "big") if known is None else known.id
        return SimTopics({**self._by_name, name: TopicInfo(name, topic_id, partition_count)}, version)

    def without(self, name: str) -> SimTopics:
        left = {each: topic for each, topic in self._by_name.items() if each != name}
        return SimTopics(left, self.version + 1)
