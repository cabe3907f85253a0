"""Each anomaly alone, and valid histories that resemble one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ruslo.testing.histories import Anomaly, Isolation, Kind, Poll, ReadRange, SeenRecord, check
from ruslo.testing.histories.events import UNSTABLE
from tests.support.txns.histories import SOURCE, A, B, HistoryBuilder


def found(history: HistoryBuilder) -> set[Anomaly]:
    return set(check(history.events).anomalies)


def valid() -> HistoryBuilder:
    """One committed transaction over two partitions and one aborted transaction, both read to the end."""
    history = HistoryBuilder()
    history.append("t1", A, "a1")
    history.append("t1", B, "b1")
    history.commit("t1")
    history.append("t2", A, "a2")
    history.abort("t2")
    history.poll(A, 0, 4, {0: "a1", 2: "a2"}, committed=False)
    history.read_to_the_end(A, 4, {0: "a1"})
    history.read_to_the_end(B, 2, {0: "b1"})
    return history


def test_valid_history_has_no_findings() -> None:
    verdict = check(valid().events)
    assert verdict.valid
    assert verdict.transactions == {"committed": 1, "aborted": 1}
    assert verdict.elements_read == 2
    assert not verdict.unproven
    assert "no anomaly" in str(verdict)


def test_the_events_may_be_in_any_order() -> None:
    assert check(reversed(valid().events)).valid


# -- reads before or without a commit ------------------------------------------------------------------------


def test_aborted_read() -> None:
    history = HistoryBuilder()
    history.append("t", A, "a")
    history.abort("t")
    history.poll(A, 0, 1, {0: "a"})
    (finding,) = check(history.events).findings
    assert finding.anomaly is Anomaly.ABORTED_READ
    assert "a of t was read although it was aborted" in finding.what
    assert [type(event.call).__name__ for event in finding.proof] == ["Append", "End", "Poll"]


def test_a_failed_commit_is_an_abort() -> None:
    history = HistoryBuilder()
    history.append("t", A, "a")
    history.commit("t", Kind.FAIL)
    history.poll(A, 0, 1, {0: "a"})
    assert found(history) == {Anomaly.ABORTED_READ}


def test_a_commit_with_an_unknown_result_may_have_succeeded() -> None:
    history = HistoryBuilder()
    history.append("t", A, "a")
    history.commit("t", Kind.INFO)
    history.poll(A, 0, 1, {0: "a"})
    assert found(history) == set()


@pytest.mark.parametrize("end", [HistoryBuilder.commit, HistoryBuilder.abort])
def test_dirty_read(end: Callable[[HistoryBuilder, str], None]) -> None:
    history = HistoryBuilder()
    history.append("t", A, "a")
    history.poll(A, 0, 1, {0: "a"})
    end(history, "t")
    assert found(history) == {Anomaly.DIRTY_READ}


def test_a_transaction_that_was_not_ended_must_not_be_read() -> None:
    history = HistoryBuilder()
    history.append("t", A, "a", kind=Kind.INVOKE)
    history.poll(A, 0, 1, {0: "a"})
    assert found(history) == {Anomaly.DIRTY_READ}


def test_read_uncommitted_consumers_read_all_records() -> None:
    history = HistoryBuilder()
    history.append("t", A, "a")
    history.poll(A, 0, 1, {0: "a"}, committed=False)
    history.abort("t")
    history.poll(A, 0, 1, {0: "a"}, committed=False)
    assert found(history) == set()


def test_a_read_concurrent_with_the_commit_may_return_its_records() -> None:
    history = HistoryBuilder()
    history.append("t", A, "a")
    history.event("r", Kind.INVOKE, Poll(Isolation.READ_COMMITTED))
    history.commit("t")
    seen = ReadRange(A, 0, 1, (SeenRecord(0, "key of a", "a"),))
    history.event("r", Kind.OK, Poll(Isolation.READ_COMMITTED, (seen,)))
    assert found(history) == set()


# -- all or nothing ------------------------------------------------------------------------------------------


def test_lost_write() -> None:
    history = HistoryBuilder()
    history.append("t", A, "a")
    history.commit("t")
    history.read_to_the_end(A, 2, {})
    (finding,) = check(history.events).findings
    assert finding.anomaly is Anomaly.LOST_WRITE
    assert "a in orders-0" in finding.what


@pytest.mark.parametrize(
    ("kind", "anomalies"),
    [
        (Kind.OK, {Anomaly.LOST_WRITE, Anomaly.TORN_TRANSACTION}),
        (Kind.INFO, {Anomaly.TORN_TRANSACTION}),
    ],
)
def test_torn_transaction(kind: Kind, anomalies: set[Anomaly]) -> None:
    history = HistoryBuilder()
    history.append("t", A, "a")
    history.append("t", B, "b")
    history.commit("t", kind)
    history.read_to_the_end(A, 2, {0: "a"})
    history.read_to_the_end(B, 2, {})
    assert found(history) == anomalies


def test_partitions_need_not_become_visible_at_the_same_time() -> None:
    history = HistoryBuilder()
    history.append("t", A, "a")
    history.append("t", B, "b")
    history.commit("t")
    history.poll(A, 0, 2, {0: "a"})
    history.poll(B, 0, 0, {})
    assert found(history) == set()
    history.read_to_the_end(B, 2, {0: "b"})
    assert found(history) == set()


def test_nothing_is_lost_in_a_partition_that_was_not_read_completely() -> None:
    history = HistoryBuilder()
    history.append("t", A, "a", "a2")
    history.commit("t")
    history.list_end(A, 3, final=True)
    history.poll(A, 1, 3, {1: "a2"})
    verdict = check(history.events)
    assert verdict.valid
    assert verdict.unproven == {A}
    assert "orders-0" in str(verdict)


def test_all_of_an_unknown_transaction_may_be_missing() -> None:
    history = HistoryBuilder()
    history.append("t", A, "a")
    history.append("t", B, "b")
    history.commit("t", Kind.INFO)
    history.read_to_the_end(A, 2, {})
    history.read_to_the_end(B, 2, {})
    assert found(history) == set()


def test_a_rejected_append_is_not_lost() -> None:
    history = HistoryBuilder()
    history.append("t", A, "a")
    history.append("t", A, "refused", kind=Kind.FAIL)
    history.commit("t")
    history.read_to_the_end(A, 2, {0: "a"})
    assert found(history) == set()


# -- the log -------------------------------------------------------------------------------------------------


def test_duplicate() -> None:
    history = HistoryBuilder()
    history.append("t", A, "a")
    history.commit("t")
    history.poll(A, 0, 2, {0: "a", 1: "a"})
    assert found(history) == {Anomaly.DUPLICATE}


def test_a_duplicate_that_only_read_uncommitted_consumers_read() -> None:
    history = HistoryBuilder()
    history.append("t", A, "a")
    history.abort("t")
    history.poll(A, 0, 1, {0: "a"}, committed=False)
    history.poll(A, 1, 2, {1: "a"}, committed=False)
    assert found(history) == {Anomaly.DUPLICATE}


def test_reordered() -> None:
    history = HistoryBuilder()
    history.append("t1", A, "a1")
    history.commit("t1")
    history.append("t2", A, "a2")
    history.commit("t2")
    history.poll(A, 0, 4, {0: "a2", 2: "a1"})
    assert found(history) == {Anomaly.REORDERED}


def test_writes_of_different_producers_are_not_ordered() -> None:
    """Write cycles: t1 before t2 in one partition and after it in another. Kafka does not isolate writers."""
    history = HistoryBuilder()
    for transaction, process in (("t1", "p"), ("t2", "q")):
        history.append(transaction, A, f"a {transaction}", by=process)
        history.append(transaction, B, f"b {transaction}", by=process)
    history.commit("t1", by="p")
    history.commit("t2", by="q")
    history.read_to_the_end(A, 4, {0: "a t1", 1: "a t2"})
    history.read_to_the_end(B, 4, {0: "b t2", 1: "b t1"})
    assert found(history) == set()


@pytest.mark.parametrize("elements", [{0: "never written"}, {0: "of another partition"}, {0: "refused"}])
def test_phantom(elements: dict[int, str]) -> None:
    history = HistoryBuilder()
    history.append("t", B, "of another partition")
    history.append("t", A, "refused", kind=Kind.FAIL)
    history.commit("t")
    history.poll(A, 0, 1, elements)
    assert found(history) == {Anomaly.PHANTOM}


def test_a_record_that_disappears() -> None:
    history = HistoryBuilder()
    history.append("t", A, "a")
    history.commit("t")
    history.poll(A, 0, 2, {0: "a"})
    history.poll(A, 0, 2, {}, by="another reader")
    (finding,) = check(history.events).findings
    assert finding.anomaly is Anomaly.INCONSISTENT_READ
    assert "read before" in finding.what


def test_a_record_that_appears_below_a_position() -> None:
    history = HistoryBuilder()
    history.append("t", A, "a")
    history.commit("t")
    history.poll(A, 0, 2, {}, by="too early")
    history.poll(A, 0, 2, {0: "a"})
    (finding,) = check(history.events).findings
    assert finding.anomaly is Anomaly.INCONSISTENT_READ
    assert "read after" in finding.what


def test_read_uncommitted_consumers_must_read_committed_records() -> None:
    history = HistoryBuilder()
    history.append("t", A, "a")
    history.commit("t")
    history.poll(A, 0, 2, {0: "a"})
    history.poll(A, 0, 2, {}, committed=False)
    assert found(history) == {Anomaly.INCONSISTENT_READ}


def test_an_offset_with_two_contents() -> None:
    history = HistoryBuilder()
    history.append("t", A, "a", "b")
    history.commit("t")
    history.poll(A, 0, 1, {0: "a"})
    history.poll(A, 0, 1, {0: "b"})
    assert found(history) == {Anomaly.INCONSISTENT_READ}


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_that_decreases(committed: bool) -> None:
    history = HistoryBuilder()
    for end in (3, 5, 4):
        history.list_end(A, end, committed=committed)
    (finding,) = check(history.events).findings
    assert finding.anomaly is Anomaly.END_WENT_BACK
    assert "from 5 to 4" in finding.what


def test_a_replaced_leader_may_return_an_old_end() -> None:
    history = HistoryBuilder()
    history.list_end(A, 5, leader_epoch=2)
    history.list_end(A, 4, leader_epoch=1)
    assert found(history) == set()


@pytest.mark.parametrize("epoch", [2, 3])
def test_the_current_leader_must_not_return_an_old_end(epoch: int) -> None:
    history = HistoryBuilder()
    history.list_end(A, 5, leader_epoch=2)
    history.list_end(A, 4, leader_epoch=1)
    history.list_end(A, 4, leader_epoch=epoch)
    (finding,) = check(history.events).findings
    assert finding.anomaly is Anomaly.END_WENT_BACK
    assert f"orders-0: 4 (leader epoch {epoch})" in str(finding)


def test_ends_are_compared_per_partition_and_isolation_level() -> None:
    history = HistoryBuilder()
    history.list_end(A, 5, committed=False)
    history.list_end(A, 3, committed=True)
    history.list_end(B, 2, committed=False)
    assert found(history) == set()


def test_hanging_transaction() -> None:
    history = HistoryBuilder()
    history.append("t", A, "a")
    history.abort("t", Kind.INFO)
    history.list_end(A, 0, final=True)
    history.list_end(A, 1, committed=False, final=True)
    assert found(history) == {Anomaly.HANGING_TRANSACTION}


def test_an_offset_that_stays_pending() -> None:
    history = HistoryBuilder()
    history.fetch_offset(UNSTABLE)
    assert found(history) == set()
    history.fetch_offset(UNSTABLE, final=True)
    assert found(history) == {Anomaly.HANGING_TRANSACTION}


# -- offsets in transactions ---------------------------------------------------------------------------------


def copied(history: HistoryBuilder, transaction: str, first: int, end: int, *, offset: int) -> None:
    """Consume, transform, produce: the output of [first, end), read at ``offset``."""
    history.append(transaction, A, f"out {transaction}")
    history.offsets(transaction, first, end)
    history.commit(transaction)
    history.poll(A, offset, offset + 2, {offset: f"out {transaction}"})


def two_copies() -> HistoryBuilder:
    history = HistoryBuilder()
    history.fetch_offset(-1)
    copied(history, "t1", 0, 3, offset=0)
    history.fetch_offset(3)
    copied(history, "t2", 3, 8, offset=2)
    return history


def test_offsets_that_match_the_outputs() -> None:
    history = two_copies()
    history.fetch_offset(8, final=True)
    assert found(history) == set()


@pytest.mark.parametrize(
    ("offset", "why"),
    [(3, "t2 had committed 8 before"), (-1, "t2 had committed 8"), (9, "no transaction sent this offset")],
)
def test_an_offset_that_was_not_committed_or_decreased(offset: int, why: str) -> None:
    history = two_copies()
    history.fetch_offset(offset)
    (finding,) = check(history.events).findings
    assert finding.anomaly is Anomaly.OFFSETS_OUT_OF_STEP
    assert why in finding.what


def test_offsets_of_an_aborted_transaction() -> None:
    history = two_copies()
    history.offsets("t3", 8, 9)
    history.abort("t3")
    history.fetch_offset(9)
    assert found(history) == {Anomaly.OFFSETS_OUT_OF_STEP}


def test_offsets_of_a_transaction_that_is_still_open() -> None:
    history = two_copies()
    history.offsets("t3", 8, 9)
    history.fetch_offset(9)
    history.commit("t3")
    assert found(history) == {Anomaly.OFFSETS_OUT_OF_STEP}


def test_offsets_that_were_processed_twice() -> None:
    history = two_copies()
    copied(history, "t3", 3, 8, offset=4)
    (finding,) = check(history.events).findings
    assert finding.anomaly is Anomaly.OFFSETS_OUT_OF_STEP
    assert "offset 3 of source-0 for g was processed twice: by t2 and by t3" in finding.what


def test_outputs_without_their_offsets() -> None:
    history = two_copies()
    history.append("t3", A, "out t3")
    history.offsets("t3", 8, 9)
    history.commit("t3", Kind.INFO)
    history.poll(A, 4, 6, {4: "out t3"})
    history.fetch_offset(8, final=True)
    assert found(history) == {Anomaly.OFFSETS_OUT_OF_STEP}


def test_offsets_without_their_outputs() -> None:
    history = two_copies()
    history.append("t3", B, "out t3")
    history.offsets("t3", 8, 9)
    history.commit("t3", Kind.INFO)
    history.read_to_the_end(B, 2, {})
    history.fetch_offset(9, final=True)
    assert found(history) == {Anomaly.OFFSETS_OUT_OF_STEP}


def test_a_gap_in_the_processed_offsets() -> None:
    history = two_copies()
    history.offsets("t3", 9, 12)
    history.commit("t3")
    history.fetch_offset(12, final=True)
    (finding,) = check(history.events).findings
    assert finding.anomaly is Anomaly.OFFSETS_OUT_OF_STEP
    assert "the output of the records before 9 is missing" in finding.what


def test_a_group_without_transactions() -> None:
    history = HistoryBuilder()
    history.fetch_offset(-1, final=True)
    assert found(history) == set()
    assert SOURCE not in check(history.events).unproven
