"""Finds hanging transactions: open in a partition, but no coordinator will ever write their marker there.

A transaction ends in a partition when its coordinator writes a marker to every partition that
``__transaction_state`` lists for the transaction. Brokers before Kafka 3.6, and those with
``transaction.partition.verification.enable=false``, let a late batch start a transaction that its coordinator
does not know of. The last stable offset then never advances. As in KIP-664, leaders report which transactions
are open and coordinators report which ones they know; the difference hangs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.producers import ActiveProducer
from ruslo.client.admin.transactions import TransactionDescription
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TRANSACTION_STATE_TOPIC, TopicPartition


class OpenTransaction(NamedTuple):
    """An open transaction as a partition leader knows it: by producer id, without a transactional id."""

    partition: TopicPartition
    producer: ActiveProducer

    @property
    def start_offset(self) -> int:
        return self.producer.current_txn_start_offset


class Coordination(NamedTuple):
    """What the coordinators know about an open transaction."""

    transactional_id: str | None
    """None when no transactional id has this producer id."""
    description: TransactionDescription | None
    """The id's current transaction if it includes the partition: its coordinator will end it there."""

    @property
    def hangs(self) -> bool:
        return self.description is None


class HangingTransaction(NamedTuple):
    open: OpenTransaction
    transactional_id: str | None


async def open_transactions(admin: Admin, partitions: Iterable[TopicPartition]) -> list[OpenTransaction]:
    """All open transactions, by partition and start offset."""
    found = await admin.producers.describe(partitions)
    opened = [
        OpenTransaction(partition, producer)
        for partition, producers in found.items()
        for producer in producers
        if producer.has_open_transaction
    ]
    return sorted(opened, key=lambda each: (each.partition, each.start_offset))


async def find_hanging_transactions(
    admin: Admin, partitions: Iterable[TopicPartition], *, written_before_ms: int
) -> list[HangingTransaction]:
    """Hanging transactions whose last record is older than a time; younger ones may yet be verified."""
    candidates = [
        each
        for each in await open_transactions(admin, partitions)
        if each.producer.last_timestamp_ms < written_before_ms
    ]
    coordination = await coordination_of(admin, candidates)
    suspects = {each: coordination[each] for each in candidates if coordination[each].hangs}
    # A transaction may have ended between the request to its leader and the one to its coordinator.
    still_open = {
        _identity(each) for each in await open_transactions(admin, {each.partition for each in suspects})
    }
    return [
        HangingTransaction(each, known.transactional_id)
        for each, known in suspects.items()
        if _identity(each) in still_open
    ]


async def coordination_of(
    admin: Admin, opened: Collection[OpenTransaction]
) -> dict[OpenTransaction, Coordination]:
    """What the coordinators know about each transaction. Raises unless all coordinators are available."""
    if not opened:
        return {}
    await _require_all_coordinators(admin)
    listed = await admin.transactions.list(producer_ids={each.producer.producer_id for each in opened})
    ids = {each.producer_id: each.transactional_id for each in listed}
    described = await admin.transactions.describe(ids.values())
    found = {}
    for each in opened:
        transactional_id = ids.get(each.producer.producer_id)
        result = None if transactional_id is None else described[transactional_id]
        if isinstance(result, KafkaError):
            if result.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise result
            result = None  # the id expired after it was listed
        known = result if result is not None and each.partition in result.partitions else None
        found[each] = Coordination(transactional_id, known)
    return found


async def _require_all_coordinators(admin: Admin) -> None:
    """Transactions of an unavailable coordinator are not listed, so all of them would seem to hang."""

    async def attempt() -> None:
        metadata = await admin.cluster.metadata([TRANSACTION_STATE_TOPIC])
        topic = metadata.topics.get(TRANSACTION_STATE_TOPIC)
        if topic is None:
            error = metadata.errors.get(TRANSACTION_STATE_TOPIC)
            if error is not None and error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise error
            return  # this cluster never coordinated a transaction
        leaderless = [each.partition for each in topic.partitions if each.leader_id not in metadata.nodes]
        if leaderless:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"partitions {leaderless} of {TRANSACTION_STATE_TOPIC} have no leader, so the transactions "
                "they coordinate are unknown",
            )

    await admin.cluster.retrying(attempt)


def _identity(transaction: OpenTransaction) -> tuple[TopicPartition, int, int]:
    return transaction.partition, transaction.producer.producer_id, transaction.start_offset
