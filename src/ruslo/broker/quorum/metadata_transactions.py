"""Shows metadata transactions (KIP-868) whole or not at all.

A change too big for one batch is written as BeginTransaction, any number of batches, EndTransaction. Whoever
applies the log holds back from Begin on; a leader that finds an open one in the log of its predecessor
writes AbortTransaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ruslo.model.errors import CorruptLogError
from ruslo.protocol.message import Message
from ruslo.protocol.messages.abort_transaction_record import AbortTransactionRecord
from ruslo.protocol.messages.begin_transaction_record import BeginTransactionRecord
from ruslo.protocol.messages.end_transaction_record import EndTransactionRecord

_MARKERS = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)


class CommittedRun(NamedTuple):
    base_offset: int
    epoch: int
    records: Sequence[Message]
    is_transaction: bool = False
    """It must be seen as a whole."""


class TransactionFilter:
    def __init__(self) -> None:
        self._held: list[Message] | None = None
        self._held_from = 0

    @property
    def is_open(self) -> bool:
        return self._held is not None

    def feed(self, base_offset: int, epoch: int, records: Sequence[Message]) -> Iterator[CommittedRun]:
        """Take the next batch; gives what may now be shown."""
        if self._held is None and not any(isinstance(record, _MARKERS) for record in records):
            yield CommittedRun(base_offset, epoch, records)
            return
        plain: list[Message] = []
        plain_from = base_offset
        for offset, record in enumerate(records, base_offset):
            if isinstance(record, BeginTransactionRecord):
                self._require(self._held is None, "begins inside another one", offset)
                if plain:
                    yield CommittedRun(plain_from, epoch, plain)
                    plain = []
                self._held, self._held_from = [], offset + 1
            elif isinstance(record, EndTransactionRecord):
                self._require(self._held is not None, "ends without having begun", offset)
                if self._held:
                    yield CommittedRun(self._held_from, epoch, self._held, is_transaction=True)
                self._held = None
            elif isinstance(record, AbortTransactionRecord):
                self._require(self._held is not None, "is aborted without having begun", offset)
                self._held = None
            elif self._held is not None:
                self._held.append(record)
            else:
                if not plain:
                    plain_from = offset
                plain.append(record)
        if plain:
            yield CommittedRun(plain_from, epoch, plain)

    @staticmethod
    def _require(condition: bool, problem: str, offset: int) -> None:
        if not condition:
            raise CorruptLogError(
                f"a metadata transaction {problem}, at offset {offset}: the metadata log is not "
                "as any controller writes it. Restore the metadata directory from a copy"
            )
