"""Requests about share groups and their persisted state."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.authorization.names import LIVE_TOPICS, Fields, Names

GROUP = "share-absent"
"""A share group without state."""


def state(**partition_fields: object) -> Callable[[Names], Fields]:
    """The fields of a request about share state; ``partition_fields`` are those of its one partition."""

    def fields(names: Names) -> Fields:
        partition = {"partition": 0, **partition_fields}
        topic_id = names.topic_id(names.random.choice(LIVE_TOPICS))
        return {"group_id": GROUP, "topics": [{"topic_id": topic_id, "partitions": [partition]}]}

    return fields
