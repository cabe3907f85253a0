"""Names of topics and partitions."""

from __future__ import annotations

import re
from typing import NamedTuple

GROUP_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
METADATA_TOPIC = "__cluster_metadata"
INTERNAL_TOPICS = frozenset({GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC})

MAX_NAME_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def topic_name_problem(name: str) -> str | None:
    """Why ``name`` is not a valid topic name; None if it is."""
    if not name:
        return "the name is empty"
    if name in (".", ".."):
        return f"the name cannot be {name!r}"
    if len(name) > MAX_NAME_LENGTH:
        return f"the name is {len(name)} characters long, at most {MAX_NAME_LENGTH} are allowed"
    if not _LEGAL.match(name):
        return f"{name!r} has characters other than ASCII letters, digits, '.', '_' and '-'"
    return None
