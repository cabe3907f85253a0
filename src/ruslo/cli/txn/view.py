"""Transactions and producers as ``ruslo txn`` prints them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ruslo.client.wire.by_topic import indexes_by_topic
from ruslo.client.wire.coordinators import value_of
from ruslo.model.topics import TopicPartition

if TYPE_CHECKING:
    from ruslo.cli.arguments.partition_scope import Scope
    from ruslo.client.admin.admin import Admin
    from ruslo.client.admin.producers import ActiveProducer
    from ruslo.client.admin.transactions import TransactionDescription
    from ruslo.client.wire.metadata import ClusterMetadata


@dataclass(frozen=True, slots=True)
class TransactionView:
    description: TransactionDescription
    coordinator_address: str
    age_ms: int | None
    """None if the transaction is not open."""

    def as_json(self) -> dict[str, object]:
        found = self.description
        return {
            "transactional_id": found.transactional_id,
            "coordinator": found.coordinator_id,
            "producer_id": found.producer_id,
            "producer_epoch": found.producer_epoch,
            "state": found.state,
            "timeout_ms": found.timeout_ms,
            "start_time_ms": found.start_ms,
            "age_ms": self.age_ms,
            "partitions": indexes_by_topic(found.partitions),
        }


@dataclass(frozen=True, slots=True)
class ProducerRow:
    """A row of ``txn producers``; None means not available."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp_ms: int | None
    coordinator_epoch: int | None
    txn_start_offset: int | None


async def describe_transactions(admin: Admin, transactional_ids: Sequence[str]) -> list[TransactionView]:
    descriptions = await admin.transactions.describe(transactional_ids)
    nodes = (await admin.cluster.metadata([])).nodes
    now = now_ms()
    views = []
    for found in map(value_of, descriptions.values()):
        node = nodes.get(found.coordinator_id)
        is_aging = found.is_open and found.start_ms is not None
        views.append(
            TransactionView(
                found,
                "" if node is None else node.address,
                max(0, now - (found.start_ms or 0)) if is_aging else None,
            )
        )
    return views


async def producer_rows(admin: Admin, scopes: Sequence[Scope]) -> list[ProducerRow]:
    metadata = await admin.cluster.metadata({scope.topic for scope in scopes})
    found = await admin.producers.describe(partitions_of(metadata, scopes))
    return [
        producer_row(partition, producer)
        for partition, producers in found.items()
        for producer in sorted(producers)
    ]


def producer_row(partition: TopicPartition, producer: ActiveProducer) -> ProducerRow:
    return ProducerRow(
        *partition,
        producer.producer_id,
        producer.producer_epoch,
        _known(producer.last_sequence),
        _known(producer.last_timestamp_ms),
        _known(producer.coordinator_epoch),
        _known(producer.current_txn_start_offset),
    )


def partitions_of(metadata: ClusterMetadata, scopes: Iterable[Scope]) -> list[TopicPartition]:
    """The partitions of the scopes, sorted."""
    found: set[TopicPartition] = set()
    for topic, numbers in scopes:
        existing = [each.partition for each in metadata.topic(topic).partitions]
        found.update(TopicPartition(topic, number) for number in (existing if numbers is None else numbers))
    return sorted(found)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def _known(number: int) -> int | None:
    return None if number < 0 else number
