"""Delivers metadata transactions (KIP-868) as a whole or not at all.

A change that is too big for one batch is written as BeginTransaction, any number of batches, EndTransaction.
Records after Begin are held back until End. A new leader that finds an open transaction in the log aborts it.
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
    """Listeners must see it as a whole."""


class TransactionFilter:
    def __init__(self) -> None:
        self._held: list[Message] | None = None
        self._held_from = 0

    @property
    def is_open(self) -> bool:
        return self._held is not None

    def feed(self, base_offset: int, epoch: int, records: Sequence[Message]) -> Iterator[CommittedRun]:
        """Process the next batch; yields what may be delivered now."""
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
                f"A metadata transaction {problem} at offset {offset}, which no controller writes. Restore "
                "the metadata directory from a backup"
            )
