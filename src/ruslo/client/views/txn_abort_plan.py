"""What an abort by an operator is about to do, found out before anybody is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ruslo.client.admin.transactions import PREPARE_COMMIT, TransactionDescription
from ruslo.client.views.hanging_transactions import coordination_of, open_transactions
from ruslo.client.wire.coordinators import value_of
from ruslo.client.wire.idempotent import ProducerIdAndEpoch
from ruslo.model.errors import RusloError
from ruslo.model.topics import TopicPartition

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin


class AbortRefused(RusloError):
    """There is no such transaction, or it must not be ended this way; the message says what can be done."""


@dataclass(frozen=True, slots=True)
class MarkerPlan:
    """An abort marker for one partition."""

    partition: TopicPartition
    producer: ProducerIdAndEpoch
    coordinator_epoch: int
    start_offset: int | None = None
    """None when the producer was given by hand."""
    transactional_id: str | None = None
    """None when no id has the producer, or when nobody was asked."""

    def text(self) -> str:
        begins = "" if self.start_offset is None else f" that begins at offset {self.start_offset}"
        owner = "" if self.transactional_id is None else f" of {self.transactional_id}"
        return (
            f"Ends the transaction{begins} in {self.partition} by an abort marker: "
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
    """For the transaction that begins there; refused if its coordinator will end it, unless ``force``."""
    opened = await open_transactions(admin, [partition])
    chosen = next((each for each in opened if each.start_offset == start_offset), None)
    if chosen is None:
        starts = ", ".join(str(each.start_offset) for each in opened)
        others = f"those that are open begin at {starts}" if starts else "none is open there"
        raise AbortRefused(
            f"no open transaction begins at offset {start_offset} of {partition}: {others}. "
            f"'ruslo txn producers {partition.topic}:{partition.partition}' shows them all."
        )
    known = (await coordination_of(admin, [chosen]))[chosen]
    if known.description is not None and not force:
        raise AbortRefused(
            f"this transaction does not hang: {known.transactional_id} has it ({known.description.state}), "
            "and its coordinator will end it. A marker in this partition alone would tear it apart. "
            f"'ruslo txn abort --transactional-id {known.transactional_id}' aborts it as a whole; --force "
            "writes the marker all the same."
        )
    producer = chosen.producer
    return MarkerPlan(
        partition,
        ProducerIdAndEpoch(producer.producer_id, producer.producer_epoch),
        # A partition that never saw a marker of this producer knows no coordinator's epoch.
        max(producer.coordinator_epoch, 0),
        start_offset,
        known.transactional_id,
    )


async def described_for_abort(admin: Admin, transactional_id: str) -> TransactionDescription:
    found = value_of((await admin.transactions.describe([transactional_id]))[transactional_id])
    if found.state == PREPARE_COMMIT:
        raise AbortRefused(
            f"the transaction of {transactional_id} is being committed, which cannot be undone. "
            f"'ruslo txn describe {transactional_id}' shows which partitions still wait for it."
        )
    return found
