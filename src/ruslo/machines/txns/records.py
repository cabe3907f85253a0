"""The records of ``__transaction_state``: a transactional id and its state, or a tombstone.

| state     | partitions | start time                 |
|-----------|------------|----------------------------|
| Empty     | null       | -1                         |
| Ongoing   | all so far | start of the transaction   |
| Prepare*  | all        | kept                       |
| Complete* | none       | kept                       |

Tag 0, the producer id before the transition, is in every record; tag 1, the next producer id, only in
Prepare* if the epochs are exhausted; tag 2, the client's transaction version, only if it is not 0. Tags exist
since value version 1, which ``transaction.version`` 1 and above write. Versions and fields are those of
Apache Kafka 4.3, so either system reads the log of the other. ``record_bytes`` encodes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ruslo.machines.txns.metadata import TxnMetadata
from ruslo.machines.txns.states import LOGGED, TxnState
from ruslo.model.errors import CorruptLogError
from ruslo.model.topics import TopicPartition
from ruslo.protocol.messages.transaction_log_value import TransactionLogValue

PLAIN_VERSION = 0
TAGGED_VERSION = 1


class TxnRecord(NamedTuple):
    transactional_id: str
    metadata: TxnMetadata | None
    """None: a tombstone, the id has expired."""
    version: int = TAGGED_VERSION
    """The version of the value; it has no meaning for a tombstone."""

    @property
    def size_bytes(self) -> int:
        """The approximate size of the record in a batch."""
        partitions = () if self.metadata is None else self.metadata.partitions
        return 64 + len(self.transactional_id) + sum(len(topic) + 8 for topic, _ in partitions)


def state_of(value: TransactionLogValue) -> TxnMetadata:
    """Raises CorruptLogError for a state that is never written."""
    if value.transaction_status not in LOGGED:
        raise CorruptLogError(
            f"a record of __transaction_state has the status {value.transaction_status}, which is never "
            "written. Restore the partition from another replica."
        )
    return TxnMetadata(
        producer_id=value.producer_id,
        epoch=value.producer_epoch,
        state=TxnState(value.transaction_status),
        timeout_ms=value.transaction_timeout_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        start_ms=value.transaction_start_timestamp_ms,
        partitions=frozenset(
            TopicPartition(topic.topic, index)
            for topic in value.transaction_partitions or ()
            for index in topic.partition_ids
        ),
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
    )


def by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    """Partitions by topic, sorted so that the same state always has the same bytes."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return list(topics.items())
