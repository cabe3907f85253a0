"""What groups need to know of the cluster's topics, whoever holds the metadata."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from ruslo.model.ids import Uuid


class TopicInfo(NamedTuple):
    name: str
    id: Uuid
    partition_count: int
    racks: tuple[frozenset[str], ...] = ()
    """Racks that hold a replica, by partition; empty when nobody needs them."""


class TopicsView(Protocol):
    """A view of one moment: it does not change under a reader, a newer one replaces it."""

    @property
    def version(self) -> int:
        """Offset of the metadata log that this view shows."""
        ...

    def by_name(self, name: str) -> TopicInfo | None: ...

    def by_id(self, topic_id: Uuid) -> TopicInfo | None: ...

    def all_names(self) -> Iterable[str]: ...


class NoTopics:
    """Before the first metadata: nothing exists."""

    version = -1

    def by_name(self, name: str) -> TopicInfo | None:
        return None

    def by_id(self, topic_id: Uuid) -> TopicInfo | None:
        return None

    def all_names(self) -> Iterable[str]:
        return ()
