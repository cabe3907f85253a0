"""Requests of transactional producers, and about them."""

from __future__ import annotations

from tests.support.authorization.names import (
    ABSENT_TRANSACTIONAL_ID,
    INTERNAL,
    OPEN_TRANSACTION,
    TRANSACTIONAL_IDS,
    UNKNOWN_PRODUCER_ID,
    Fields,
    Names,
)
from tests.support.authorization.topic_requests import named_partitions


def init_producer_id(names: Names) -> Fields:
    transactional_id = names.random.choice([None, names.transactional_id()])
    return {"transactional_id": transactional_id, "transaction_timeout_ms": 60_000}


def _producer(names: Names) -> Fields:
    return {
        "transactional_id": names.transactional_id(),
        "producer_id": UNKNOWN_PRODUCER_ID,
        "producer_epoch": 0,
    }


def add_partitions_to_txn(names: Names) -> Fields:
    topics = [{"name": name, "partitions": [0]} for name in names.topics()]
    if names.random.random() < 0.2:
        topics.append({"name": INTERNAL, "partitions": [0]})
    producer = _producer(names)
    return {
        "transactions": [{**producer, "verify_only": True, "topics": topics}],
        **{f"v3_and_below_{field}": value for field, value in {**producer, "topics": topics}.items()},
    }


def add_offsets_to_txn(names: Names) -> Fields:
    return {**_producer(names), "group_id": names.group()}


def end_txn(names: Names) -> Fields:
    return {**_producer(names), "committed": True}


def write_txn_markers(names: Names) -> Fields:
    marker = {
        "producer_id": UNKNOWN_PRODUCER_ID,
        "producer_epoch": 0,
        "transaction_result": False,
        "topics": named_partitions(names),
    }
    return {"markers": [marker]}


def txn_offset_commit(names: Names) -> Fields:
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    return {
        **_producer(names),
        "group_id": names.group(),
        "topics": [{"name": name, "partitions": [partition]} for name in names.topics()],
    }


def describe_transactions(names: Names) -> Fields:
    known = names.some((*TRANSACTIONAL_IDS, ABSENT_TRANSACTIONAL_ID))
    return {"transactional_ids": [*known, OPEN_TRANSACTION]}
