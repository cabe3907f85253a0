"""Requests about share groups and their persisted state."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.authorization.names import LIVE_TOPICS, SHARE_GROUP, STRANGER, TOPICS, Fields, Names

GROUP = "share-absent"
"""A share group without state."""


def state(**partition_fields: object) -> Callable[[Names], Fields]:
    """The fields of a request about share state; ``partition_fields`` are those of its one partition."""

    def fields(names: Names) -> Fields:
        partition = {"partition": 0, **partition_fields}
        topic_id = names.topic_id(names.random.choice(LIVE_TOPICS))
        return {"group_id": GROUP, "topics": [{"topic_id": topic_id, "partitions": [partition]}]}

    return fields


def share_group_heartbeat(names: Names) -> Fields:
    return {
        "group_id": names.random.choice((names.group(), SHARE_GROUP)),
        "member_id": STRANGER,
        "member_epoch": 3,
        "subscribed_topic_names": names.topics() if names.random.random() < 0.7 else None,
    }


def share_group_describe(names: Names) -> Fields:
    return {"group_ids": [*names.groups(), SHARE_GROUP], "include_authorized_operations": True}


def describe_share_group_offsets(names: Names) -> Fields:
    def query(group: str) -> Fields:
        topics = [{"topic_name": name, "partitions": [0]} for name in names.topics()]
        return {"group_id": group, "topics": None if names.random.random() < 0.4 else topics}

    return {"groups": [query(group) for group in (*names.groups(), SHARE_GROUP)]}


def alter_share_group_offsets(names: Names) -> Fields:
    partitions = [{"partition_index": 0, "start_offset": 0}]
    return {
        "group_id": names.random.choice((names.group(), SHARE_GROUP)),
        "topics": [{"topic_name": name, "partitions": partitions} for name in names.topics()],
    }


def delete_share_group_offsets(names: Names) -> Fields:
    # Offsets that exist must stay for the next user.
    return {
        "group_id": names.random.choice((names.group(), SHARE_GROUP)),
        "topics": [{"topic_name": name} for name in ("absent", "orders.absent")],
    }


def share_fetch(names: Names) -> Fields:
    """Opens a share session and acquires nothing. Apache Kafka fails if it does not know a topic id."""
    return {
        "group_id": names.group(),
        "member_id": STRANGER,
        "share_session_epoch": 0,
        "max_bytes": 10_000,
        "topics": [
            {"topic_id": names.topic_id(name), "partitions": [{"partition_index": 0}]}
            for name in names.some(TOPICS)
        ],
    }


def share_acknowledge(names: Names) -> Fields:
    batch = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}
    partition = {"partition_index": 0, "acknowledgement_batches": [batch]}
    return {
        "group_id": names.group(),
        "member_id": STRANGER,
        "share_session_epoch": names.random.choice([-1, 77]),
        "topics": [
            {"topic_id": names.topic_id(name), "partitions": [partition]} for name in names.some(TOPICS)
        ],
    }
