"""How a consumer reads the bytes of a log."""

from __future__ import annotations

from ruslo.model.topics import TopicPartition
from ruslo.records.batch import TRANSACTIONAL
from ruslo.records.builder import build_batch
from ruslo.records.control import end_txn_batch
from ruslo.records.record import Record
from ruslo.storage.txn_index import AbortedTransaction
from ruslo.testing.histories import Isolation
from ruslo.testing.simulation.txns.reader import span_of

PARTITION = TopicPartition("list", 0)


def data(offset: int, producer_id: int, *values: bytes) -> bytearray:
    return build_batch(
        [Record(at, 0, b"k", value) for at, value in enumerate(values)],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        attributes=TRANSACTIONAL,
    )


def marker(offset: int, producer_id: int, *, commit: bool) -> bytearray:
    return end_txn_batch(
        commit=commit,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=0,
        base_offset=offset,
    )


LOG = (
    data(0, 1, b"a", b"b")
    + data(2, 2, b"c")
    + marker(3, 1, commit=False)
    + data(4, 1, b"d")
    + marker(5, 2, commit=True)
    + marker(6, 1, commit=True)
)
ABORTED = (AbortedTransaction(1, 0, 3, 2),)


def elements(start: int, isolation: Isolation, log: bytes | bytearray = LOG) -> tuple[str, int]:
    read_range = span_of(PARTITION, start, log, ABORTED, isolation)
    assert (read_range.tp, read_range.start) == (PARTITION, start)
    return "".join(record.element for record in read_range.records), read_range.end


def test_aborted_data_and_markers_are_omitted() -> None:
    assert elements(0, Isolation.READ_COMMITTED) == ("cd", 7)
    assert elements(0, Isolation.READ_UNCOMMITTED) == ("abcd", 7)


def test_first_batch_may_begin_before_the_position_and_the_last_may_be_partial() -> None:
    assert elements(1, Isolation.READ_UNCOMMITTED) == ("bcd", 7)
    truncated = LOG[: len(data(0, 1, b"a", b"b")) + 10]
    assert elements(0, Isolation.READ_UNCOMMITTED, truncated) == ("ab", 2)


def test_empty_log() -> None:
    assert elements(5, Isolation.READ_COMMITTED, b"") == ("", 5)
