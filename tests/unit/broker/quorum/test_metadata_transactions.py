"""Metadata transactions are delivered as a whole or not at all."""

from __future__ import annotations

import pytest

from ruslo.broker.quorum.metadata_transactions import CommittedRun, TransactionFilter
from ruslo.model.errors import CorruptLogError
from ruslo.protocol.message import Message
from ruslo.protocol.messages.abort_transaction_record import AbortTransactionRecord
from ruslo.protocol.messages.begin_transaction_record import BeginTransactionRecord
from ruslo.protocol.messages.end_transaction_record import EndTransactionRecord
from ruslo.protocol.messages.no_op_record import NoOpRecord

BEGIN, END, ABORT, X = (
    BeginTransactionRecord(),
    EndTransactionRecord(),
    AbortTransactionRecord(),
    NoOpRecord(),
)


def shown(*batches: list[Message]) -> list[tuple[int, int]]:
    """The base offset and number of records of each run; batches are contiguous from offset 0."""
    transactions = TransactionFilter()
    runs: list[CommittedRun] = []
    offset = 0
    for batch in batches:
        runs += transactions.feed(offset, 1, batch)
        offset += len(batch)
    return [(run.base_offset, len(run.records)) for run in runs]


def test_batches_outside_transactions_pass() -> None:
    assert shown([X, X], [X]) == [(0, 2), (2, 1)]


def test_batch_may_hold_several_transactions() -> None:
    assert shown([X, BEGIN, X, X, END, X, BEGIN, X, END]) == [(0, 1), (2, 2), (5, 1), (7, 1)]


def test_transaction_may_span_batches() -> None:
    assert shown([BEGIN], [X], [X, X], [X, END, X]) == [(1, 4), (6, 1)]
    assert shown([BEGIN], [X], [X]) == []


def test_aborted_transaction_is_dropped() -> None:
    assert shown([BEGIN, X], [X, ABORT], [X]) == [(4, 1)]


def test_empty_transaction_delivers_nothing() -> None:
    assert shown([BEGIN, END]) == []


@pytest.mark.parametrize(
    ("batch", "problem"),
    [
        ([BEGIN, BEGIN], "begins inside another one at offset 1"),
        ([END], "ends without having begun at offset 0"),
        ([X, ABORT], "is aborted without having begun at offset 1"),
    ],
)
def test_invalid_markers_are_rejected(batch: list[Message], problem: str) -> None:
    with pytest.raises(CorruptLogError, match=problem):
        shown(batch)
