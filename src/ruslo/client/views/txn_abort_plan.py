"""Plans the abort of a transaction by an operator, to show before the confirmation."""

from __future__ import annotations

from dataclasses import dataclass

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.transactions import PREPARE_COMMIT, TransactionDescription
from ruslo.client.views.hanging_transactions import coordination_of, open_transactions
from ruslo.client.wire.coordinators import value_of
from ruslo.client.wire.idempotent import ProducerIdAndEpoch
from ruslo.model.errors import RusloError
from ruslo.model.topics import TopicPartition


class AbortRefused(RusloError):
    """The transaction does not exist, or must not be aborted this way; the message has the fix."""


@dataclass(frozen=True, slots=True)
class MarkerPlan:
    """An abort marker for one partition."""

    partition: TopicPartition
    producer: ProducerIdAndEpoch
    coordinator_epoch: int
    start_offset: int | None = None
    """None when the user gave the producer id."""
    transactional_id: str | None = None
    """None when no id has the producer id, or when the coordinators were not queried."""

    def text(self) -> str:
        start = "" if self.start_offset is None else f" that starts at offset {self.start_offset}"
        owner = "" if self.transactional_id is None else f" of {self.transactional_id}"
        return (
            f"Writes an abort marker for the transaction{start} in {self.partition}: "
            f"producer {self.producer.producer_id}{owner} (epoch {self.producer.producer_epoch}), "
            f"coordinator epoch {self.coordinator_epoch}."
        )

    def as_json(self) -> dict[str, object]:
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            **self.producer._asdict(),
            "coordinator_epoch": self.coordinator_epoch,
            "start_offset": self.start_offset,
            "transactional_id": self.transactional_id,
        }


async def plan_marker(admin: Admin, partition: TopicPartition, start_offset: int, force: bool) -> MarkerPlan:
    """Plan a marker for the transaction at an offset; without ``force``, refuse one that does not hang."""
    opened = await open_transactions(admin, [partition])
    chosen = next((each for each in opened if each.start_offset == start_offset), None)
    if chosen is None:
        starts = ", ".join(str(each.start_offset) for each in opened)
        others = f"open transactions start at {starts}" if starts else "it has no open transaction"
        raise AbortRefused(
            f"no open transaction starts at offset {start_offset} of {partition}: {others}. "
            f"Run 'ruslo txn producers {partition.topic}:{partition.partition}' to list them."
        )
    known = (await coordination_of(admin, [chosen]))[chosen]
    if known.description is not None and not force:
        raise AbortRefused(
            f"the transaction does not hang: it belongs to {known.transactional_id} "
            f"({known.description.state}), and its coordinator will end it. A marker in this partition alone "
            "would break its atomicity. Abort the whole transaction with 'ruslo txn abort --transactional-id "
            f"{known.transactional_id}', or pass --force to write the marker."
        )
    producer = chosen.producer
    return MarkerPlan(
        partition,
        ProducerIdAndEpoch(producer.producer_id, producer.producer_epoch),
        # A partition without a marker of this producer does not know the coordinator epoch.
        max(producer.coordinator_epoch, 0),
        start_offset,
        known.transactional_id,
    )


async def described_for_abort(admin: Admin, transactional_id: str) -> TransactionDescription:
    found = value_of((await admin.transactions.describe([transactional_id]))[transactional_id])
    if found.state == PREPARE_COMMIT:
        raise AbortRefused(
            f"the transaction of {transactional_id} is being committed, which cannot be undone. "
            f"Run 'ruslo txn describe {transactional_id}' to list the partitions without a marker."
        )
    return found
