"""Groups partitions by topic, the shape that most requests have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from ruslo.model.topics import TopicPartition

T = TypeVar("T")


def by_topic(entries: Iterable[tuple[TopicPartition, T]]) -> dict[str, list[T]]:
    grouped: dict[str, list[T]] = {}
    for partition, entry in entries:
        grouped.setdefault(partition.topic, []).append(entry)
    return grouped


def indexes_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    return by_topic((partition, partition.partition) for partition in partitions)
