"""Producer state of a partition: what makes producers idempotent and transactions visible in time.

The rules for a batch of a client, in this order (KIP-98, KIP-360, KIP-890):

| batch                                                      | result                                     |
|------------------------------------------------------------|--------------------------------------------|
| same epoch, exactly the sequences of one of the last five  | a duplicate: answered with its old offset  |
| the same, but that one's transaction has ended             | UNKNOWN_PRODUCER_ID                        |
| begins a transaction, and its guard is gone                | INVALID_TXN_STATE                          |
| epoch below the known one                                  | INVALID_PRODUCER_EPOCH                     |
| behind one that found no room on the disk                  | KAFKA_STORAGE_ERROR, as that one got       |
| begins a transaction, an earlier batch asked to begin it   | OUT_OF_ORDER_SEQUENCE_NUMBER               |
| epoch above the known one                                  | sequence 0, else OUT_OF_ORDER_…            |
| producer unknown                                           | any sequence; transactional, v2: only 0    |
| not the sequence after the last                            | OUT_OF_ORDER_SEQUENCE_NUMBER               |
| not transactional while a transaction is open              | INVALID_TXN_STATE                          |

What a coordinator appends skips the sequence rules; what a follower appends, and what is read back from the
log, skips all of them: the leader has checked it.
"""

from __future__ import annotations

from typing import NamedTuple

from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.records.batch import (
    ATTRIBUTES,
    BASE_SEQUENCE,
    LAST_OFFSET_DELTA,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    TRANSACTIONAL,
    HeaderFields,
)
from ruslo.storage.producer_entry import (
    NO_OFFSET,
    SEQUENCE_MASK,
    BatchMetadata,
    ProducerEntry,
)
from ruslo.storage.txn_index import AbortedTransaction
from ruslo.storage.verification_guard import VerificationGuard


class TransactionMarker(NamedTuple):
    producer_id: int
    epoch: int
    coordinator_epoch: int
    committed: bool
    timestamp: int


class ProducerStates:
    """The producers of one partition. ``entries`` is read directly by the append path."""

    __slots__ = ("_completed", "_open", "awaiting_retry", "entries", "guards")

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.guards: dict[int, VerificationGuard] = {}
        """By producer id: batches that would begin a transaction and wait for its coordinator's word."""
        self.awaiting_retry: dict[int, tuple[int, int]] = {}
        """By producer id: epoch and sequence of a batch for which the disk had no room, until it comes again.

        What was in flight behind it must fail as it did. Of a gap in the sequences librdkafka would conclude
        that it must begin a new epoch, and in that it repeats what other partitions hold already."""
        self._open: dict[int, int] = {}
        """First offset → producer id of open transactions; rising, as each begins at the log's end."""
        self._completed: dict[int, int] = {}
        """First offset → marker offset of ended transactions whose marker is not below the high watermark."""

    def __len__(self) -> int:
        return len(self.entries)

    # --- checks on the leader -----------------------------------------------------------

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        entry = self.entries.get(producer_id)
        return entry is not None and entry.transaction_start != NO_OFFSET and entry.epoch == epoch

    def guard(self, producer_id: int, epoch: int, sequence: int, now_ms: int) -> VerificationGuard:
        """The guard for a batch that would begin a transaction: the producer's own, or a new one."""
        guard = self.guards.get(producer_id)
        if guard is None:
            guard = self.guards[producer_id] = VerificationGuard(epoch, sequence, now_ms)
        else:
            guard.note(epoch, sequence)
        return guard

    def is_overtaken(self, producer_id: int, epoch: int, guard: VerificationGuard) -> bool:
        """Whether a marker has come since the guard was made."""
        return self.guards.get(producer_id) is not guard and not self.has_open_transaction(producer_id, epoch)

    def check(
        self,
        header: HeaderFields,
        *,
        check_sequence: bool = True,
        transaction_v2: bool = False,
        guard: VerificationGuard | None = None,
    ) -> BatchMetadata | None:
        """Whether a data batch may be appended: the earlier batch it repeats, or None; raises KafkaError.

        ``guard``: under which the coordinator was asked for it; None if nobody had to be.
        """
        attributes, delta, producer_id, epoch, first_sequence = (
            header[ATTRIBUTES],
            header[LAST_OFFSET_DELTA],
            header[PRODUCER_ID],
            header[PRODUCER_EPOCH],
            header[BASE_SEQUENCE],
        )
        transactional = bool(attributes & TRANSACTIONAL)
        entry = self.entries.get(producer_id)
        if entry is not None and check_sequence:
            last_sequence = (first_sequence + delta) & SEQUENCE_MASK
            duplicate = entry.find_duplicate(epoch, first_sequence, last_sequence)
            if duplicate is not None:
                if transactional and not entry.is_in_open_transaction(duplicate):
                    raise _used_again(producer_id, epoch, first_sequence, duplicate)
                return duplicate
        self.check_epoch_and_guard(producer_id, epoch, guard)
        if check_sequence:
            missing_epoch, missing_sequence = self.awaiting_retry.get(producer_id, (epoch, first_sequence))
            if epoch == missing_epoch and first_sequence != missing_sequence:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"producer {producer_id} must first send sequence {missing_sequence} again: the disk had "
                    f"no room for it",
                )
            if (
                guard is not None
                and self.guards.get(producer_id) is guard
                and guard.epoch == epoch
                and first_sequence > guard.lowest_sequence
            ):
                raise _out_of_order(producer_id, epoch, first_sequence, guard.lowest_sequence)
            if entry is not None:
                expected = entry.next_sequence if epoch == entry.epoch else 0
            else:
                # A version 2 client begins every epoch with a transaction's first batch; others may have been
                # forgotten in the middle.
                expected = 0 if transactional and transaction_v2 else first_sequence
            if first_sequence != expected:
                raise _out_of_order(producer_id, epoch, first_sequence, expected)
        if entry is not None and entry.transaction_start != NO_OFFSET and not transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer_id} has an open transaction, so its batches must be transactional",
            )
        return None

    def check_epoch_and_guard(self, producer_id: int, epoch: int, guard: VerificationGuard | None) -> None:
        """What holds for every transactional batch, also for one that a coordinator of this broker writes."""
        entry = self.entries.get(producer_id)
        if guard is not None and self.is_overtaken(producer_id, epoch, guard):
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"the transaction of producer {producer_id} ended before this batch could join it",
            )
        if entry is not None and epoch < entry.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {entry.epoch} here, the batch has the older {epoch}",
            )

    def check_marker(self, marker: TransactionMarker, transaction_version: int) -> None:
        entry = self.entries.get(marker.producer_id)
        if entry is None:
            return
        # KIP-890: under version 2 a marker carries the bumped epoch, so one that does not is late; except the
        # repetition of a marker that was written already, which is harmless.
        late = marker.epoch < entry.epoch or (
            transaction_version >= 2 and marker.epoch == entry.epoch and entry.transaction_start != NO_OFFSET
        )
        if late:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"marker of producer {marker.producer_id} has epoch {marker.epoch}, here it is {entry.epoch}",
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"marker of producer {marker.producer_id} comes from coordinator epoch "
                f"{marker.coordinator_epoch}, {entry.coordinator_epoch} has written since",
            )

    # --- changes, once the batch is in the log ------------------------------------------

    def append_data(self, header: HeaderFields, base_offset: int) -> None:
        """Take note of a data batch of an idempotent producer that was written at ``base_offset``."""
        _, _, _, _, _, attributes, delta, _, timestamp, producer_id, epoch, first_sequence, _ = header
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id, epoch)
        elif entry.epoch != epoch:
            entry.move_to_epoch(epoch)
        entry.add_batch(
            BatchMetadata((first_sequence + delta) & SEQUENCE_MASK, base_offset + delta, delta, timestamp)
        )
        # It has come again, be it through another leader.
        self.awaiting_retry.pop(producer_id, None)
        if attributes & TRANSACTIONAL and entry.transaction_start == NO_OFFSET:
            entry.transaction_start = base_offset
            self._open[base_offset] = producer_id
            self.guards.pop(producer_id, None)

    def aborted_by(self, marker: TransactionMarker, offset: int) -> AbortedTransaction | None:
        """The entry for the transaction index if a marker at ``offset`` aborts any data."""
        entry = self.entries.get(marker.producer_id)
        if marker.committed or entry is None or entry.transaction_start == NO_OFFSET:
            return None
        start = entry.transaction_start
        oldest_left = next((first for first in self._open if first != start), offset + 1)
        return AbortedTransaction(marker.producer_id, start, offset, oldest_left)

    def append_marker(self, marker: TransactionMarker, offset: int) -> AbortedTransaction | None:
        """Take note of a marker at ``offset``; the entry for the transaction index if it aborted any data."""
        aborted = None if marker.committed else self.aborted_by(marker, offset)
        self.guards.pop(marker.producer_id, None)
        entry = self.entries.get(marker.producer_id)
        if entry is None:
            entry = self.entries[marker.producer_id] = ProducerEntry(marker.producer_id, marker.epoch)
        entry.move_to_epoch(marker.epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = marker.timestamp
        start = entry.transaction_start
        if start != NO_OFFSET:
            entry.transaction_start = NO_OFFSET
            self._open.pop(start, None)
            self._completed[start] = offset
        return aborted

    # --- the last stable offset ---------------------------------------------------------

    @property
    def has_transactions(self) -> bool:
        """Whether anything can hold the last stable offset below the high watermark."""
        return bool(self._open or self._completed)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Where the oldest transaction begins that is open or ends at or past the high watermark."""
        completed = self._completed
        if completed:
            for start in [start for start, marker in completed.items() if marker < high_watermark]:
                del completed[start]
        oldest_open = next(iter(self._open), None)
        oldest_completed = min(completed) if completed else None
        if oldest_open is None or oldest_completed is None:
            return oldest_completed if oldest_open is None else oldest_open
        return min(oldest_open, oldest_completed)

    def merge_completed(self, other: ProducerStates) -> None:
        """Of transactions that a snapshot did not tell of, as they had ended before it."""
        self._completed.update(other._completed)

    def has_completed_at(self, marker_offset: int) -> bool:
        return marker_offset in self._completed.values()

    def open_transactions(self) -> list[tuple[int, int]]:
        """(first offset, producer id), oldest first."""
        return list(self._open.items())

    # --- coming and going ---------------------------------------------------------------

    def restore(self, entry: ProducerEntry) -> None:
        """Take over an entry from a snapshot; ``finish_restore`` follows the last."""
        self.entries[entry.producer_id] = entry

    def finish_restore(self) -> None:
        self._open = {
            entry.transaction_start: entry.producer_id
            for entry in sorted(self.entries.values(), key=lambda entry: entry.transaction_start)
            if entry.transaction_start != NO_OFFSET
        }

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that wrote nothing for ``expiration_ms``; never one with an open transaction."""
        expired = [
            producer_id
            for producer_id, entry in self.entries.items()
            if entry.transaction_start == NO_OFFSET and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self.entries[producer_id]
        for producer_id, guard in list(self.guards.items()):
            if now_ms - guard.created_ms >= expiration_ms:
                del self.guards[producer_id]
        return len(expired)

    def clear(self) -> None:
        self.entries.clear()
        self.guards.clear()
        self.awaiting_retry.clear()
        self._open.clear()
        self._completed.clear()


def _used_again(producer_id: int, epoch: int, first_sequence: int, earlier: BatchMetadata) -> KafkaError:
    """No client repeats a batch of a transaction that it has ended: these are other records.

    librdkafka numbers them so after an abort. As a duplicate they would be acked, committed and nowhere. This
    error makes it abort and begin a new epoch; to OUT_OF_ORDER_SEQUENCE_NUMBER it would answer by giving up.
    """
    return KafkaError(
        ErrorCode.UNKNOWN_PRODUCER_ID,
        f"producer {producer_id} used sequence {first_sequence} of epoch {epoch} already, at offset "
        f"{earlier.first_offset} in a transaction that has ended; abort and begin a new epoch",
    )


def _out_of_order(producer_id: int, epoch: int, sequence: int, expected: int) -> KafkaError:
    return KafkaError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {producer_id} at epoch {epoch} sent sequence {sequence}, the next one here is {expected}",
    )
