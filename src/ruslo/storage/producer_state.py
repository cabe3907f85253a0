"""The producer state of a partition: sequences, epochs and open transactions of its producers.

Rules for a batch of a client, in this order (KIP-98, KIP-360, KIP-890):

| batch                                                      | result                                     |
|------------------------------------------------------------|--------------------------------------------|
| same epoch, exactly the sequences of one of the last five  | a duplicate: acked with its old offset     |
| the same, but the transaction of that one has ended        | UNKNOWN_PRODUCER_ID                        |
| starts a transaction, its verification guard was removed   | INVALID_TXN_STATE                          |
| epoch below the known one                                  | INVALID_PRODUCER_EPOCH                     |
| after one that failed on a full disk                       | KAFKA_STORAGE_ERROR, as that one           |
| starts a transaction that an earlier batch waits to start  | OUT_OF_ORDER_SEQUENCE_NUMBER               |
| epoch above the known one                                  | sequence 0, else OUT_OF_ORDER_…            |
| producer unknown                                           | any sequence; transactional, v2: only 0    |
| not the sequence after the last                            | OUT_OF_ORDER_SEQUENCE_NUMBER               |
| not transactional while a transaction is open              | INVALID_TXN_STATE                          |

Batches of a coordinator skip the sequence rules. Batches that a follower appends, or that are read from the
log, skip all rules: the leader has applied them.
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
    """The producers of one partition. The append path reads ``entries`` directly."""

    __slots__ = ("_completed", "_open", "awaiting_retry", "entries", "guards")

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.guards: dict[int, VerificationGuard] = {}
        """By producer id: the guard of batches that wait for the verification of their transaction."""
        self.awaiting_retry: dict[int, tuple[int, int]] = {}
        """By producer id: epoch and sequence of a batch that failed on a full disk, until it is retried.

        Batches in flight after it must fail with the same error. With OUT_OF_ORDER_SEQUENCE_NUMBER librdkafka
        would start a new epoch and send again what other partitions have already.
        """
        self._open: dict[int, int] = {}
        """First offset → producer id of open transactions, ascending because each starts at the log end."""
        self._completed: dict[int, int] = {}
        """First offset → marker offset of completed transactions with a marker past the high watermark."""

    def __len__(self) -> int:
        return len(self.entries)

    # --- checks on the leader -----------------------------------------------------------

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        entry = self.entries.get(producer_id)
        return entry is not None and entry.transaction_start != NO_OFFSET and entry.epoch == epoch

    def guard(self, producer_id: int, epoch: int, sequence: int, now_ms: int) -> VerificationGuard:
        """The verification guard of a producer, for a batch that would start a transaction."""
        guard = self.guards.get(producer_id)
        if guard is None:
            guard = self.guards[producer_id] = VerificationGuard(epoch, sequence, now_ms)
        else:
            guard.note(epoch, sequence)
        return guard

    def is_overtaken(self, producer_id: int, epoch: int, guard: VerificationGuard) -> bool:
        """Whether a marker was appended after the guard was created."""
        return self.guards.get(producer_id) is not guard and not self.has_open_transaction(producer_id, epoch)

    def check(
        self,
        header: HeaderFields,
        *,
        check_sequence: bool = True,
        transaction_v2: bool = False,
        guard: VerificationGuard | None = None,
    ) -> BatchMetadata | None:
        """Check that a data batch may be appended; returns the earlier batch if it is a duplicate.

        ``guard``: the verification guard of the batch; None if it needed no verification. Raises KafkaError.
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
                    raise _reused_sequence(producer_id, epoch, first_sequence, duplicate)
                return duplicate
        self.check_epoch_and_guard(producer_id, epoch, guard)
        if check_sequence:
            missing_epoch, missing_sequence = self.awaiting_retry.get(producer_id, (epoch, first_sequence))
            if epoch == missing_epoch and first_sequence != missing_sequence:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"sequence {missing_sequence} of producer {producer_id} failed on a full disk; retry it "
                    f"first",
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
                # A version 2 client starts every epoch with the first batch of a transaction. The state of
                # another client may have expired.
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
        """Check the rules that hold for every transactional batch, those of coordinators included."""
        entry = self.entries.get(producer_id)
        if guard is not None and self.is_overtaken(producer_id, epoch, guard):
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"the transaction of producer {producer_id} ended before this batch could join it",
            )
        if entry is not None and epoch < entry.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {entry.epoch}, the batch has the older epoch {epoch}",
            )

    def check_marker(self, marker: TransactionMarker, transaction_version: int) -> None:
        entry = self.entries.get(marker.producer_id)
        if entry is None:
            return
        # KIP-890: under version 2 a marker has the bumped epoch, so one without it is late. A retry of a
        # marker that is in the log already is harmless.
        late = marker.epoch < entry.epoch or (
            transaction_version >= 2 and marker.epoch == entry.epoch and entry.transaction_start != NO_OFFSET
        )
        if late:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"the marker of producer {marker.producer_id} has epoch {marker.epoch}, not {entry.epoch}",
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"the marker of producer {marker.producer_id} has coordinator epoch "
                f"{marker.coordinator_epoch}, a coordinator of epoch {entry.coordinator_epoch} was later",
            )

    # --- changes, after the batch is in the log -----------------------------------------

    def append_data(self, header: HeaderFields, base_offset: int) -> None:
        """Apply a data batch of an idempotent producer that was written at ``base_offset``."""
        _, _, _, _, _, attributes, delta, _, timestamp, producer_id, epoch, first_sequence, _ = header
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id, epoch)
        elif entry.epoch != epoch:
            entry.move_to_epoch(epoch)
        entry.add_batch(
            BatchMetadata((first_sequence + delta) & SEQUENCE_MASK, base_offset + delta, delta, timestamp)
        )
        # The batch was retried, perhaps through another leader.
        self.awaiting_retry.pop(producer_id, None)
        if attributes & TRANSACTIONAL and entry.transaction_start == NO_OFFSET:
            entry.transaction_start = base_offset
            self._open[base_offset] = producer_id
            self.guards.pop(producer_id, None)

    def aborted_by(self, marker: TransactionMarker, offset: int) -> AbortedTransaction | None:
        """The transaction index entry if a marker at ``offset`` aborts any data."""
        entry = self.entries.get(marker.producer_id)
        if marker.committed or entry is None or entry.transaction_start == NO_OFFSET:
            return None
        start = entry.transaction_start
        oldest_open = next((first for first in self._open if first != start), offset + 1)
        return AbortedTransaction(marker.producer_id, start, offset, oldest_open)

    def append_marker(self, marker: TransactionMarker, offset: int) -> AbortedTransaction | None:
        """Apply a marker at ``offset``; returns the transaction index entry if it aborted any data."""
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
        """Whether any transaction may hold the last stable offset below the high watermark."""
        return bool(self._open or self._completed)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The start of the oldest transaction that is open or has a marker past the high watermark."""
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
        """Add completed transactions, which a snapshot does not have."""
        self._completed.update(other._completed)

    def has_completed_at(self, marker_offset: int) -> bool:
        return marker_offset in self._completed.values()

    def open_transactions(self) -> list[tuple[int, int]]:
        """(first offset, producer id), oldest first."""
        return list(self._open.items())

    # --- loading and expiring -----------------------------------------------------------

    def restore(self, entry: ProducerEntry) -> None:
        """Add an entry of a snapshot; ``finish_restore`` must follow the last one."""
        self.entries[entry.producer_id] = entry

    def finish_restore(self) -> None:
        self._open = {
            entry.transaction_start: entry.producer_id
            for entry in sorted(self.entries.values(), key=lambda entry: entry.transaction_start)
            if entry.transaction_start != NO_OFFSET
        }

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers that appended nothing for ``expiration_ms`` and have no open transaction."""
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


def _reused_sequence(producer_id: int, epoch: int, first_sequence: int, earlier: BatchMetadata) -> KafkaError:
    """The error for new records with sequences of a transaction that has ended.

    librdkafka reuses sequences after an abort. Acked as duplicates, the records would be lost. With this
    error it aborts and starts a new epoch; OUT_OF_ORDER_SEQUENCE_NUMBER would be fatal.
    """
    return KafkaError(
        ErrorCode.UNKNOWN_PRODUCER_ID,
        f"producer {producer_id} has used sequence {first_sequence} of epoch {epoch} at offset "
        f"{earlier.first_offset}, in a transaction that has ended; abort and start a new epoch",
    )


def _out_of_order(producer_id: int, epoch: int, sequence: int, expected: int) -> KafkaError:
    return KafkaError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {producer_id} at epoch {epoch} sent sequence {sequence}, expected {expected}",
    )
