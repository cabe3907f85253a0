"""The partitions that a query reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ruslo.client.wire.metadata import ClusterMetadata, TopicInfo
from ruslo.model.errors import ConfigError
from ruslo.model.topics import INTERNAL_TOPICS, TopicPartition, topic_name_problem
from ruslo.pipeline.option_values import OptionValues, decode_json

NAMES = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True, slots=True)
class Subscription:
    """Topics by name, topics by pattern, or single partitions."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()

    def metadata_topics(self) -> list[str] | None:
        """The topics of the Metadata request; None for all."""
        if self.pattern is not None:
            return None
        return list(self.topics or dict.fromkeys(partition.topic for partition in self.assigned))

    def select(self, metadata: ClusterMetadata) -> dict[TopicPartition, TopicInfo]:
        """The subscribed partitions that exist, in order. Missing topics are ignored."""
        found: dict[TopicPartition, TopicInfo] = {}
        for name in sorted(metadata.topics):
            topic = metadata.topics[name]
            for info in topic.partitions:
                partition = TopicPartition(name, info.partition)
                if self._wants(partition):
                    found[partition] = topic
        return found

    def _wants(self, partition: TopicPartition) -> bool:
        if self.pattern is not None:
            # As in Java, the pattern must match the whole name.
            return partition.topic not in INTERNAL_TOPICS and bool(
                re.fullmatch(self.pattern, partition.topic)
            )
        return partition in self.assigned if self.assigned else partition.topic in self.topics

    def missing(self, found: Mapping[TopicPartition, object]) -> list[str]:
        """Topics or partitions that were named and do not exist."""
        if self.assigned:
            return [str(partition) for partition in self.assigned if partition not in found]
        present = {partition.topic for partition in found}
        return [topic for topic in self.topics if topic not in present]


def parse_subscription(values: OptionValues) -> Subscription:
    given = [name for name in NAMES if name in values]
    if len(given) != 1:
        problem = f"{' and '.join(given)} exclude each other" if given else "the topics to read are missing"
        raise ConfigError(f"{problem}: set one of subscribe, subscribePattern and assign")
    if given == ["subscribePattern"]:
        pattern = values.text("subscribePattern") or ""
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"subscribePattern={pattern}: invalid regular expression ({error})") from None
        return Subscription(pattern=pattern)
    if given == ["assign"]:
        return Subscription(assigned=_parse_assign(values.text("assign") or ""))
    topics = values.names("subscribe") or ()
    for topic in topics:
        _check_name("subscribe", topic)
    return Subscription(topics=tuple(sorted(set(topics))))


def _parse_assign(value: str) -> tuple[TopicPartition, ...]:
    example = '{"orders": [0, 1]}'
    decoded = decode_json("assign", value, dict[str, list[int]], example)
    partitions = {TopicPartition(topic, number) for topic, numbers in decoded.items() for number in numbers}
    if not partitions:
        raise ConfigError(f"assign={value} names no partition: write it as {example}")
    for topic in decoded:
        _check_name("assign", topic)
    return tuple(sorted(partitions))


def _check_name(option: str, topic: str) -> None:
    problem = topic_name_problem(topic)
    if problem is not None:
        raise ConfigError(f"{option}: {problem}")
