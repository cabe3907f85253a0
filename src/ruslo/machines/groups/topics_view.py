"""The part of the cluster's metadata that groups use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from ruslo.model.ids import Uuid


class TopicInfo(NamedTuple):
    name: str
    id: Uuid
    partition_count: int
    racks: tuple[frozenset[str], ...] = ()
    """The racks of the replicas by partition; empty if no broker has a rack."""


class TopicsView(Protocol):
    """It does not change while an event is handled."""

    @property
    def version(self) -> int:
        """The offset of the metadata log that this view contains."""
        ...

    def by_name(self, name: str) -> TopicInfo | None: ...

    def by_id(self, topic_id: Uuid) -> TopicInfo | None: ...

    def all_names(self) -> Iterable[str]: ...


class NoTopics:
    """The view before the first metadata."""

    version = -1

    def by_name(self, name: str) -> TopicInfo | None:
        return None

    def by_id(self, topic_id: Uuid) -> TopicInfo | None:
        return None

    def all_names(self) -> Iterable[str]:
        return ()
