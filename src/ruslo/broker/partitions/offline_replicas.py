"""Replicas of this broker that are offline because their log directory failed."""

from __future__ import annotations

from ruslo.machines.controller.topic_image import TopicImage
from ruslo.machines.replica.fetch_session_handler import TopicIdPartition
from ruslo.model.ids import RESERVED_DIRS, Uuid
from ruslo.model.topics import TopicPartition
from ruslo.storage.log_manager import LogManager


class OfflineReplicas:
    def __init__(self, logs: LogManager) -> None:
        self._logs = logs
        self._replicas: set[TopicIdPartition] = set()
        self._topic_ids: dict[str, Uuid] = {}
        """The ids of topics that have or had offline replicas, by name."""

    def __len__(self) -> int:
        return len(self._replicas)

    def __contains__(self, tp: TopicIdPartition) -> bool:
        return tp in self._replicas

    def topic_id(self, topic: str) -> Uuid | None:
        return self._topic_ids.get(topic)

    def add(self, topic: str, topic_id: Uuid, index: int) -> None:
        self._topic_ids[topic] = topic_id
        self._replicas.add((topic_id, index))

    def discard(self, tp: TopicIdPartition) -> None:
        self._replicas.discard(tp)

    def forget_topic(self, topic: str) -> None:
        self._topic_ids.pop(topic, None)

    def must_stay_offline(self, topic: TopicImage, index: int, directory_id: Uuid, *, starting: bool) -> bool:
        """Whether the log may be in a failed directory: an empty log elsewhere must not replace it.

        ``directory_id``: the directory of the replica in the metadata. ``starting``: the replica may be older
        than the broker process.
        """
        if self._logs.get(TopicPartition(topic.name, index)) is None:
            online = {each.directory_id for each in self._logs.directories if each.online}
            failed = {each.directory_id for each in self._logs.directories if not each.online}
            # The id of a directory that could not be opened is unknown. An older partition may be in it
            # although its assignment never reached the controller.
            may_have_failed = directory_id not in online and (directory_id not in RESERVED_DIRS or starting)
            if directory_id in failed - RESERVED_DIRS or (failed and may_have_failed):
                self.add(topic.name, topic.id, index)
        return (topic.id, index) in self._replicas
