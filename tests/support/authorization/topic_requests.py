"""Requests about topics."""

from __future__ import annotations

from collections.abc import Callable

from ruslo.model.ids import ZERO_UUID
from ruslo.records.batch import TRANSACTIONAL
from ruslo.records.builder import build_batch
from ruslo.records.record import Record
from tests.support.authorization.names import ABSENT, DOOMED, INTERNAL, UNKNOWN_PRODUCER_ID, Fields, Names


def produce(names: Names) -> Fields:
    transactional = names.random.random() < 0.4
    producer = (
        {"producer_id": UNKNOWN_PRODUCER_ID, "producer_epoch": 0, "base_sequence": 0} if transactional else {}
    )
    batch = build_batch([Record(0, 1, None, b"v")], attributes=TRANSACTIONAL * transactional, **producer)
    return {
        "transactional_id": names.transactional_id() if transactional else None,
        "acks": -1 if transactional else 1,
        "timeout_ms": 10_000,
        "topic_data": [
            {**topic, "partition_data": [{"index": 0, "records": bytes(batch)}]}
            for topic in names.topics_and_ids()
        ],
    }


def fetch(names: Names) -> Fields:
    replica = names.random.choice([-1, -1, 9])
    return {
        "replica_id": replica,
        "replica_state": {"replica_id": replica, "replica_epoch": -1},
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 10_000,
        "session_epoch": -1,
        "topics": [
            {
                "topic": topic["name"],
                "topic_id": topic["topic_id"],
                "partitions": [{"partition": 0, "partition_max_bytes": 1_000}],
            }
            for topic in names.topics_and_ids()
        ],
    }


def list_offsets(names: Names) -> Fields:
    partition = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}
    topics = [{"name": name, "partitions": [partition]} for name in names.topics()]
    return {"replica_id": -1, "topics": topics, "timeout_ms": 10_000}


def metadata(names: Names) -> Fields:
    some = dict.fromkeys((*names.topics(), names.random.choice(ABSENT), INTERNAL))
    topics: list[Fields] | None = [{"name": name} for name in some]
    pick = names.random.random()
    if pick < 0.2:
        topics = [] if names.version == 0 else None
    elif pick < 0.5 and names.version >= 12:
        topics = [{"name": None, "topic_id": names.topic_id(name)} for name in names.topics()]
    return {
        "topics": topics,
        "allow_auto_topic_creation": names.random.random() < 0.7,
        "include_cluster_authorized_operations": True,
        "include_topic_authorized_operations": True,
    }


def create_topics(names: Names) -> Fields:
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names.topics()]
    return {"topics": topics, "timeout_ms": 10_000, "validate_only": True}


def delete_topics(names: Names) -> Fields:
    wanted = names.some((*DOOMED, *ABSENT))
    by_id = names.random.random() < 0.5
    topics = [
        {"name": None, "topic_id": names.topic_id(name)}
        if by_id
        else {"name": name, "topic_id": ZERO_UUID}
        for name in wanted
    ]  # fmt: skip
    return {"topics": topics, "topic_names": wanted, "timeout_ms": 10_000}


def delete_records(names: Names) -> Fields:
    partition = {"partition_index": 0, "offset": 0}
    return {
        "topics": [{"name": name, "partitions": [partition]} for name in names.topics()],
        "timeout_ms": 10_000,
    }


def offset_for_leader_epoch(names: Names) -> Fields:
    partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    return {
        "replica_id": names.random.choice([-1, 9]),
        "topics": [{"topic": name, "partitions": [partition]} for name in names.topics()],
    }


def create_partitions(names: Names) -> Fields:
    topics = [{"name": name, "count": 3, "assignments": None} for name in names.topics()]
    return {"topics": topics, "timeout_ms": 10_000, "validate_only": True}


def _partitions_of_topics(name: str, partitions: str) -> Callable[[Names], list[Fields]]:
    """Topics with their partition 0, under these attributes."""
    return lambda names: [{name: each, partitions: [0]} for each in names.topics()]


topic_partitions = _partitions_of_topics("topic", "partitions")
_listed_partitions = _partitions_of_topics("name", "partitions")
named_partitions = _partitions_of_topics("name", "partition_indexes")


def alter_replica_log_dirs(names: Names) -> Fields:
    return {"dirs": [{"path": "/no/such/directory", "topics": _listed_partitions(names)}]}


def describe_log_dirs(names: Names) -> Fields:
    return {"topics": topic_partitions(names)}


def describe_producers(names: Names) -> Fields:
    return {"topics": named_partitions(names)}


def describe_topic_partitions(names: Names) -> Fields:
    every_topic = names.random.random() < 0.3
    return {"topics": [] if every_topic else [{"name": name} for name in names.topics()]}


def elect_leaders(names: Names) -> Fields:
    return {"topic_partitions": topic_partitions(names), "timeout_ms": 10_000}


def alter_partition_reassignments(names: Names) -> Fields:
    topics = [
        {"name": name, "partitions": [{"partition_index": 0, "replicas": None}]} for name in names.topics()
    ]
    return {"topics": topics, "timeout_ms": 10_000}


def list_partition_reassignments(names: Names) -> Fields:
    return {"topics": named_partitions(names), "timeout_ms": 10_000}
