"""Finds transactions that hang: open in a partition, and no coordinator will ever end them there.

A transaction ends in a partition when its coordinator writes a marker there, to every partition that the
transaction has according to ``__transaction_state``. Brokers before Kafka 3.6, and those with
``transaction.partition.verification.enable=false``, let a late batch begin one that its coordinator does not
know of; then the last stable offset stands still for good. Found as KIP-664 has it: partitions tell what is
open, coordinators tell what they know; what is in the first set only hangs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ruslo.client.admin.offsets import ActiveProducer, Offsets
from ruslo.client.admin.transactions import TransactionDescription, Transactions
from ruslo.client.wire.cluster import Cluster
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TRANSACTION_STATE_TOPIC, TopicPartition


class OpenTransaction(NamedTuple):
    """What a partition's leader knows of it: it has heard of producer ids, never of transactional ids."""

    partition: TopicPartition
    producer: ActiveProducer

    @property
    def start_offset(self) -> int:
        return self.producer.current_txn_start_offset


class Coordination(NamedTuple):
    """What the coordinators know of an open transaction."""

    transactional_id: str | None
    """None when no id has this producer id."""
    description: TransactionDescription | None
    """Of the id's present transaction, if it has the partition: then the coordinator will end it there."""

    @property
    def hangs(self) -> bool:
        return self.description is None


class HangingTransaction(NamedTuple):
    open: OpenTransaction
    transactional_id: str | None


class HangingTransactions:
    def __init__(self, cluster: Cluster, offsets: Offsets, transactions: Transactions) -> None:
        self._cluster = cluster
        self._offsets = offsets
        self._transactions = transactions

    async def open_in(self, partitions: Iterable[TopicPartition]) -> list[OpenTransaction]:
        """All that are open, the oldest of each partition first."""
        found = await self._offsets.producers(partitions)
        opened = [
            OpenTransaction(partition, producer)
            for partition, producers in found.items()
            for producer in producers
            if producer.has_open_transaction
        ]
        return sorted(opened, key=lambda each: (each.partition, each.start_offset))

    async def find(
        self, partitions: Iterable[TopicPartition], *, written_before_ms: int
    ) -> list[HangingTransaction]:
        """Among those with no record since a time; one that is younger may yet be confirmed."""
        candidates = [
            each
            for each in await self.open_in(partitions)
            if each.producer.last_timestamp_ms < written_before_ms
        ]
        coordination = await self.coordination(candidates)
        suspects = {each: coordination[each] for each in candidates if coordination[each].hangs}
        # One that lived may have ended after its partition was asked, and before its coordinator was.
        still_open = {_identity(each) for each in await self.open_in({each.partition for each in suspects})}
        return [
            HangingTransaction(each, known.transactional_id)
            for each, known in suspects.items()
            if _identity(each) in still_open
        ]

    async def coordination(self, opened: Collection[OpenTransaction]) -> dict[OpenTransaction, Coordination]:
        """What the coordinators know of each. Raises unless every one of them can be asked."""
        if not opened:
            return {}
        await self._require_all_coordinators()
        listed = await self._transactions.list(producer_ids={each.producer.producer_id for each in opened})
        ids = {each.producer_id: each.transactional_id for each in listed}
        described = await self._transactions.describe(ids.values())
        found = {}
        for each in opened:
            transactional_id = ids.get(each.producer.producer_id)
            answer = None if transactional_id is None else described[transactional_id]
            if isinstance(answer, KafkaError):
                if answer.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    raise answer
                answer = None  # it expired while we asked
            known = answer if answer is not None and each.partition in answer.partitions else None
            found[each] = Coordination(transactional_id, known)
        return found

    async def _require_all_coordinators(self) -> None:
        """Where nobody coordinates at the moment nobody lists what lives: all of it would seem to hang."""

        async def attempt() -> None:
            metadata = await self._cluster.metadata([TRANSACTION_STATE_TOPIC])
            topic = metadata.topics.get(TRANSACTION_STATE_TOPIC)
            if topic is None:
                error = metadata.errors.get(TRANSACTION_STATE_TOPIC)
                if error is not None and error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise error
                return  # no transaction was ever coordinated in this cluster
            orphans = [each.partition for each in topic.partitions if each.leader_id not in metadata.nodes]
            if orphans:
                raise KafkaError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE,
                    f"partitions {orphans} of {TRANSACTION_STATE_TOPIC} have no leader, so that not all "
                    "transactions that live can be known",
                )

        await self._cluster.retrying(attempt)


def _identity(transaction: OpenTransaction) -> tuple[TopicPartition, int, int]:
    return transaction.partition, transaction.producer.producer_id, transaction.start_offset
