from __future__ import annotations

from ruslo.pipeline.decode.batch_table import BatchTable, scan_batches
from ruslo.pipeline.decode.committed import committed_batches, data_batches
from ruslo.records.batch import TRANSACTIONAL
from ruslo.records.control import end_txn_batch
from ruslo.storage.txn_index import AbortedTransaction
from tests.unit.storage.workbench import NOW, batch


def write(producer_id: int, offset: int) -> bytearray:
    return batch(producer_id=producer_id, producer_epoch=0, base_offset=offset, attributes=TRANSACTIONAL)


def end(producer_id: int, offset: int, *, commit: bool) -> bytearray:
    return end_txn_batch(
        commit=commit,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=NOW,
        base_offset=offset,
    )


def aborted(producer_id: int, first: int, last: int) -> AbortedTransaction:
    return AbortedTransaction(producer_id, first, last, last + 1)


def offsets(table: BatchTable) -> list[int]:
    found: list[int] = table.base_offsets.tolist()
    return found


def test_control_batches_are_never_returned() -> None:
    table = scan_batches(write(1, 0) + end(1, 1, commit=True) + batch(base_offset=2))
    assert offsets(data_batches(table)) == [0, 2]
    assert offsets(committed_batches(table, [])) == [0, 2]


def test_an_aborted_transaction_is_skipped_among_others() -> None:
    table = scan_batches(
        write(1, 0)
        + write(2, 1)
        + batch(base_offset=2)
        + write(1, 3)
        + end(1, 4, commit=False)
        + end(2, 5, commit=True)
    )
    assert offsets(committed_batches(table, [aborted(1, 0, 4)])) == [1, 2]
    assert offsets(data_batches(table)) == [0, 1, 2, 3]


def test_the_next_transaction_of_the_producer_is_returned() -> None:
    table = scan_batches(
        write(1, 0) + end(1, 1, commit=False) + write(1, 2) + end(1, 3, commit=True) + write(1, 4)
    )
    assert offsets(committed_batches(table, [aborted(1, 0, 1), aborted(1, 4, 9)])) == [2]


def test_a_reader_that_starts_in_the_middle_of_an_aborted_transaction() -> None:
    table = scan_batches(write(1, 50) + end(1, 51, commit=False) + write(1, 52))
    assert offsets(committed_batches(table, [aborted(1, 3, 51)])) == [52]
