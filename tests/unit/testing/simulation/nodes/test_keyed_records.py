from __future__ import annotations

from ruslo.records.batch import TRANSACTIONAL, read_header
from ruslo.records.builder import build_batch
from ruslo.records.control import end_txn_batch
from ruslo.records.record import Record
from ruslo.testing.simulation.nodes.keyed_records import KeyedRecords

PRODUCER = 7


class Trace:
    """Batches with one record each, committed one after another."""

    def __init__(self) -> None:
        self.records = KeyedRecords()
        self.end = 0

    def write(self, key: bytes, value: bytes, *, in_transaction: bool = False) -> int:
        data = build_batch(
            [Record(0, 1, key, value)],
            base_offset=self.end,
            producer_id=PRODUCER if in_transaction else -1,
            attributes=TRANSACTIONAL if in_transaction else 0,
        )
        self.records.committed(read_header(data), data)
        self.end += 1
        return self.end - 1

    def end_transaction(self, *, commit: bool) -> None:
        data = end_txn_batch(
            commit=commit, producer_id=PRODUCER, producer_epoch=0, coordinator_epoch=0, timestamp=1
        )
        self.records.committed(read_header(data), data)
        self.end += 1

    def lost_without(self, *offsets: int) -> str | None:
        """The finding for a log in which the records at these offsets are missing."""
        found = set(self.records.between(0, self.end)).difference(offsets)
        return self.records.lost(0, self.end, found)


def test_only_superseded_records_may_be_missing() -> None:
    trace = Trace()
    first, other, last = trace.write(b"k", b"1"), trace.write(b"l", b"2"), trace.write(b"k", b"3")
    assert trace.lost_without(first) is None
    assert trace.lost_without(other) == f"the record at {other}, (b'l', b'2')"
    assert trace.lost_without(last) is not None
    assert sorted(trace.records.last_values, key=str) == [b"2", b"3"]


def test_transaction_supersedes_nothing_until_it_is_committed() -> None:
    trace = Trace()
    before, inside = trace.write(b"k", b"1"), trace.write(b"k", b"2", in_transaction=True)
    assert trace.lost_without(before) is not None
    assert trace.lost_without(inside) is not None
    trace.end_transaction(commit=True)
    assert trace.lost_without(before) is None
    assert trace.lost_without(inside) is not None


def test_records_of_an_open_transaction_stay() -> None:
    trace = Trace()
    inside = trace.write(b"k", b"1", in_transaction=True)
    trace.write(b"k", b"2")
    assert trace.lost_without(inside) is not None


def test_aborted_records_may_be_missing_and_supersede_nothing() -> None:
    trace = Trace()
    before, inside = trace.write(b"k", b"1"), trace.write(b"k", b"2", in_transaction=True)
    trace.end_transaction(commit=False)
    assert trace.lost_without(inside) is None
    assert trace.lost_without(before) is not None
    assert trace.records.last_values == [b"1"]


def test_changed_record_is_reported() -> None:
    trace = Trace()
    trace.write(b"k", b"1")
    found: set[int] = set()
    assert trace.records.first_mismatch(build_batch([Record(0, 1, b"k", b"1")]), found) is None
    assert found == {0}
    assert trace.records.first_mismatch(build_batch([Record(0, 1, b"k", b"other")]), found) is not None
