"""Requests about groups."""

from __future__ import annotations

from tests.support.authorization.names import (
    ABSENT_GROUP,
    GROUPS,
    STRANGER,
    TRANSACTIONAL_IDS,
    Fields,
    Names,
)

NO_TOPICS = b"\0\0\0\0\0\0\xff\xff\xff\xff"
"""The metadata of a classic consumer that subscribes to nothing."""


def offset_commit(names: Names) -> Fields:
    partition = {"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}
    known = names.random.random() < 0.6
    return {
        "group_id": names.random.choice(GROUPS) if known else names.group(),
        "generation_id_or_member_epoch": -1 if known else 5,
        "member_id": "" if known else STRANGER,
        "topics": [{**topic, "partitions": [partition]} for topic in names.topics_and_ids()],
    }


def offset_fetch(names: Names) -> Fields:
    def query(group: str) -> Fields:
        topics = [{**topic, "partition_indexes": [0]} for topic in names.topics_and_ids()]
        everything = names.random.random() < 0.4 and names.version >= 2
        return {"group_id": group, "topics": None if everything else topics}

    groups = [query(group) for group in names.groups()]
    single = query(names.group())
    if single["topics"] is not None:
        single["topics"] = [{"name": topic["name"], "partition_indexes": [0]} for topic in single["topics"]]
    return {**single, "groups": groups}


def find_coordinator(names: Names) -> Fields:
    key_type = names.random.choice([0, 1]) if names.version >= 1 else 0
    keys = names.groups() if key_type == 0 else names.some(TRANSACTIONAL_IDS)
    return {"key": keys[0], "key_type": key_type, "coordinator_keys": keys}


def join_group(names: Names) -> Fields:
    return {
        # A group of the consumer protocol would accept the stranger.
        "group_id": names.random.choice((*GROUPS, ABSENT_GROUP)),
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": STRANGER,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": NO_TOPICS}],
    }


def member(names: Names) -> Fields:
    return {"group_id": names.group(), "generation_id": 1, "member_id": STRANGER}


def sync_group(names: Names) -> Fields:
    protocol = {"protocol_type": "consumer", "protocol_name": "range"} if names.random.random() < 0.8 else {}
    return {**member(names), **protocol}


def leave_group(names: Names) -> Fields:
    return {"group_id": names.group(), "member_id": STRANGER, "members": [{"member_id": STRANGER}]}


def describe_groups(names: Names) -> Fields:
    return {"groups": names.groups(), "include_authorized_operations": True}


def consumer_group_describe(names: Names) -> Fields:
    return {"group_ids": names.groups(), "include_authorized_operations": True}


def consumer_group_heartbeat(names: Names) -> Fields:
    return {
        "group_id": names.group(),
        "member_id": STRANGER,
        "member_epoch": 3,
        "rebalance_timeout_ms": 10_000,
        "subscribed_topic_names": names.topics(),
        "topic_partitions": [],
    }


def streams_group_describe(names: Names) -> Fields:
    return {"group_ids": names.groups(), "include_authorized_operations": True}


def streams_group_heartbeat(names: Names) -> Fields:
    # Only a joining member may send a topology, but its topics are authorized first.
    subtopology = {
        "subtopology_id": "0",
        "source_topics": names.topics(),
        "repartition_sink_topics": names.topics(),
        "state_changelog_topics": [{"name": name} for name in names.topics()],
        "repartition_source_topics": [{"name": name} for name in names.topics()],
    }
    return {
        "group_id": names.group(),
        "member_id": STRANGER,
        "member_epoch": 3,
        "topology": {"subtopologies": [subtopology]} if names.random.random() < 0.8 else None,
    }


def offset_delete(names: Names) -> Fields:
    # The partition has no offset.
    topics = [{"name": name, "partitions": [{"partition_index": 7}]} for name in names.topics()]
    return {"group_id": names.group(), "topics": topics}
