"""The offsets of a streaming query, as the JSON that Spark keeps in its checkpoint.

``{"orders": {"id": "…", "offsets": {"0": 23, "1": 45}}}``

- Topics and partitions are sorted, because Spark compares offsets as text.
- ``id`` is the topic id. It detects a recreated topic, and is empty for brokers without topic ids.
- ``"since": {"0": 20, "1": 45}`` is the start of the first batch: Spark keeps only the ends of batches.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from ruslo.client.wire.by_topic import indexes_by_topic
from ruslo.model.errors import ConfigError
from ruslo.model.ids import ZERO_UUID, Uuid, uuid_from_text, uuid_to_text
from ruslo.model.topics import TopicPartition


class _Topic(msgspec.Struct):
    id: str
    offsets: dict[int, int]
    since: dict[int, int] = {}


@dataclass(frozen=True, slots=True)
class SourceOffsets:
    """The next offset to read of each partition, and the topic ids."""

    topic_ids: Mapping[str, Uuid]
    offsets: Mapping[TopicPartition, int]
    since: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The start of the batch that ends at ``offsets``; empty unless it is the first batch."""

    @classmethod
    def from_json(cls, value: object) -> SourceOffsets:
        """Accepts Spark's text or the dict parsed from it; raises ConfigError for anything else."""
        try:
            if isinstance(value, str | bytes):
                topics = msgspec.json.decode(value, type=dict[str, _Topic])
            else:
                topics = msgspec.convert(value, dict[str, _Topic], strict=False)
            ids = {
                name: uuid_from_text(topic.id) if topic.id else ZERO_UUID for name, topic in topics.items()
            }
        except (msgspec.DecodeError, ValueError) as error:
            raise ConfigError(
                f"the checkpoint contains offsets of another source ({error}): {json.dumps(value)}; "
                "use a checkpoint of format('ruslo'), or a new one"
            ) from error
        return cls(
            ids,
            _by_partition((name, topic.offsets) for name, topic in topics.items()),
            _by_partition((name, topic.since) for name, topic in topics.items()),
        )

    def to_json(self) -> dict[str, dict[str, object]]:
        result: dict[str, dict[str, object]] = {}
        for name, numbers in indexes_by_topic(sorted(self.offsets)).items():
            topic_id = self.topic_ids.get(name, ZERO_UUID)
            result[name] = {
                "id": "" if topic_id == ZERO_UUID else uuid_to_text(topic_id),
                "offsets": {str(n): self.offsets[TopicPartition(name, n)] for n in numbers},
            }
            if self.since:
                result[name]["since"] = {str(n): self.since[TopicPartition(name, n)] for n in numbers}
        return result

    def reached(self) -> SourceOffsets:
        """The same offsets without the start of the batch."""
        return replace(self, since={})

    def same_topic(self, name: str, other: SourceOffsets) -> bool:
        """Whether the topic has the same id in both; true if an id is unknown."""
        mine, theirs = self.topic_ids.get(name, ZERO_UUID), other.topic_ids.get(name, ZERO_UUID)
        return mine == theirs or ZERO_UUID in (mine, theirs)


def _by_partition(topics: Iterable[tuple[str, Mapping[int, int]]]) -> dict[TopicPartition, int]:
    return {TopicPartition(name, n): offset for name, offsets in topics for n, offset in offsets.items()}
