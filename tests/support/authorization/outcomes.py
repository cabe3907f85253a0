"""What a response says about authorization: errors, visible resources and authorized operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ruslo.model.ids import ZERO_UUID
from ruslo.protocol.message import Struct
from tests.support.authorization.names import DOOMED

Outcome: TypeAlias = Any

NAMES = frozenset(
    (
        "name", "topic", "topic_name", "partition", "partition_index", "partition_id", "index",
        "group_id", "transactional_id", "key", "host",
        "resource_name", "resource_type", "user", "principal", "principal_name",
        "operation", "permission_type", "pattern_type", "entity_type", "entity_name", "feature",
    )
)  # fmt: skip
"""Fields that name a resource or a rule. FindCoordinator has the host of a coordinator that it discloses."""
UNRELATED = frozenset(
    (
        "brokers",
        "nodes",
        "node_endpoints",
        "configs",
        "record_errors",
        "members",
        "credential_infos",
        "values",
    )
)
"""Lists of what is not a resource, or differs between nodes for other reasons."""
_VANISHING = frozenset((*DOOMED, "__transaction_state", "__share_group_state"))
"""Topics whose existence depends on the time."""


def outcome(api: str, response: Struct, topic_names: Mapping[bytes, str]) -> Outcome:
    """Nested tuples of a response's errors and names, without order.

    The ids of topics differ between nodes, so they become names.
    """
    hidden = frozenset() if api == "DeleteTopics" else _VANISHING
    if api == "AlterShareGroupOffsets":
        # Apache Kafka tells the ids of topics that the client may not read.
        for topic in response.responses:  # type: ignore[attr-defined]
            topic.topic_id = ZERO_UUID
    result = _of_struct(response, topic_names, hidden)
    return () if result is None else result


def _of_struct(value: Struct, topic_names: Mapping[bytes, str], hidden: frozenset[str]) -> Outcome | None:
    parts: list[tuple[str, Outcome]] = []
    for attribute in value.__slots__:
        field = getattr(value, attribute)
        if attribute in UNRELATED:
            continue
        if attribute == "topic_id":
            if field != ZERO_UUID:
                parts.append(("topic_id", topic_names.get(field, "unknown id")))
        elif attribute.endswith(("error_code", "authorized_operations")) or attribute in NAMES:
            if isinstance(field, str) and field in hidden:
                return None
            if field is not None:
                parts.append((attribute, field))
        elif isinstance(field, list) and field and isinstance(field[0], Struct):
            elements = [_of_struct(each, topic_names, hidden) for each in field]
            kept = sorted((each for each in elements if each is not None), key=repr)
            parts.append((attribute, tuple(kept)))
        elif isinstance(field, Struct):
            inner = _of_struct(field, topic_names, hidden)
            if inner:
                parts.append((attribute, inner))
    return tuple(parts)
