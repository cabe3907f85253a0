"""How far a streaming query has read: the JSON that Spark keeps in its checkpoint.

``{"orders": {"id": "…", "offsets": {"0": 23, "1": 45}}}``. Spark compares offsets as text, so topics and
partitions always stand in the same order. The topic's id tells a topic from another of the same name that was
created after it was deleted; it is empty where brokers are too old to have ids. The end of the first batch
has ``"since": {"0": 20, "1": 45}`` as well, where the batch begins: Spark keeps the ends of batches only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from ruslo.model.errors import ConfigError
from ruslo.model.ids import ZERO_UUID, Uuid, uuid_from_text, uuid_to_text
from ruslo.model.topics import TopicPartition


class _Topic(msgspec.Struct):
    id: str
    offsets: dict[int, int]
    since: dict[int, int] = {}


@dataclass(frozen=True, slots=True)
class SourceOffsets:
    """The next offset to read of each partition, and the ids of the topics."""

    topic_ids: Mapping[str, Uuid]
    offsets: Mapping[TopicPartition, int]
    since: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Where the batch that ends there begins, if it is the first."""

    @classmethod
    def from_json(cls, value: object) -> SourceOffsets:
        """From Spark's text or the dict it was parsed to; raises ConfigError for anything else."""
        try:
            if isinstance(value, str | bytes):
                topics = msgspec.json.decode(value, type=dict[str, _Topic])
            else:
                topics = msgspec.convert(value, dict[str, _Topic], strict=False)
            ids = {name: _parse_id(topic.id) for name, topic in topics.items()}
        except (msgspec.DecodeError, ValueError) as error:
            raise ConfigError(
                f"the checkpoint holds offsets of another source ({error}): {json.dumps(value)}; "
                "use the checkpoint of a query over format('ruslo'), or a new one"
            ) from error
        return cls(
            ids,
            _by_partition((name, topic.offsets) for name, topic in topics.items()),
            _by_partition((name, topic.since) for name, topic in topics.items()),
        )

    def to_json(self) -> dict[str, dict[str, object]]:
        result: dict[str, dict[str, object]] = {}
        for name, numbers in self._by_topic():
            topic_id = self.topic_ids.get(name, ZERO_UUID)
            result[name] = {
                "id": "" if topic_id == ZERO_UUID else uuid_to_text(topic_id),
                "offsets": {str(n): self.offsets[TopicPartition(name, n)] for n in numbers},
            }
            if self.since:
                result[name]["since"] = {str(n): self.since[TopicPartition(name, n)] for n in numbers}
        return result

    def _by_topic(self) -> Iterator[tuple[str, list[int]]]:
        by_topic: dict[str, list[int]] = {}
        for partition in sorted(self.offsets):
            by_topic.setdefault(partition.topic, []).append(partition.partition)
        yield from by_topic.items()

    def reached(self) -> SourceOffsets:
        """Without where the batch began."""
        return replace(self, since={})

    def same_topic(self, name: str, other: SourceOffsets) -> bool:
        """Whether both mean the same topic by a name, as far as that is known."""
        mine, theirs = self.topic_ids.get(name, ZERO_UUID), other.topic_ids.get(name, ZERO_UUID)
        return mine == theirs or ZERO_UUID in (mine, theirs)


def _by_partition(topics: Iterable[tuple[str, Mapping[int, int]]]) -> dict[TopicPartition, int]:
    return {TopicPartition(name, n): offset for name, offsets in topics for n, offset in offsets.items()}


def _parse_id(text: str) -> Uuid:
    return uuid_from_text(text) if text else ZERO_UUID
