"""Each anomaly alone, and what looks like one but is allowed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ruslo.testing.histories import Anomaly, Isolation, Kind, Poll, SeenRecord, Span, check
from ruslo.testing.histories.events import UNSTABLE
from tests.support.txns.histories import SOURCE, A, B, Story


def found(story: Story) -> set[Anomaly]:
    return set(check(story.events).anomalies)


def good() -> Story:
    """One committed transaction over two partitions, one aborted, both read to the end."""
    story = Story()
    story.append("t1", A, "a1")
    story.append("t1", B, "b1")
    story.commit("t1")
    story.append("t2", A, "a2")
    story.abort("t2")
    story.poll(A, 0, 4, {0: "a1", 2: "a2"}, committed=False)
    story.read_to_the_end(A, 4, {0: "a1"})
    story.read_to_the_end(B, 2, {0: "b1"})
    return story


def test_a_good_history_has_nothing_to_find() -> None:
    verdict = check(good().events)
    assert verdict.valid
    assert verdict.transactions == {"committed": 1, "aborted": 1}
    assert verdict.elements_read == 2
    assert not verdict.unproven
    assert "no anomaly" in str(verdict)


def test_the_events_may_come_in_any_order() -> None:
    assert check(reversed(good().events)).valid


# -- reads before or without a commit ------------------------------------------------------------------------


def test_aborted_read() -> None:
    story = Story()
    story.append("t", A, "a")
    story.abort("t")
    story.poll(A, 0, 1, {0: "a"})
    (finding,) = check(story.events).findings
    assert finding.anomaly is Anomaly.ABORTED_READ
    assert "a of t was read although it was aborted" in finding.what
    assert [type(event.call).__name__ for event in finding.proof] == ["Append", "End", "Poll"]


def test_a_commit_that_failed_for_certain_is_an_abort() -> None:
    story = Story()
    story.append("t", A, "a")
    story.commit("t", Kind.FAIL)
    story.poll(A, 0, 1, {0: "a"})
    assert found(story) == {Anomaly.ABORTED_READ}


def test_a_commit_nobody_knows_of_may_be_one() -> None:
    story = Story()
    story.append("t", A, "a")
    story.commit("t", Kind.INFO)
    story.poll(A, 0, 1, {0: "a"})
    assert found(story) == set()


@pytest.mark.parametrize("end", [Story.commit, Story.abort])
def test_dirty_read(end: Callable[[Story, str], None]) -> None:
    story = Story()
    story.append("t", A, "a")
    story.poll(A, 0, 1, {0: "a"})
    end(story, "t")
    assert found(story) == {Anomaly.DIRTY_READ}


def test_a_transaction_that_nobody_ended_must_not_be_seen() -> None:
    story = Story()
    story.append("t", A, "a", kind=Kind.INVOKE)
    story.poll(A, 0, 1, {0: "a"})
    assert found(story) == {Anomaly.DIRTY_READ}


def test_readers_of_uncommitted_data_see_everything() -> None:
    story = Story()
    story.append("t", A, "a")
    story.poll(A, 0, 1, {0: "a"}, committed=False)
    story.abort("t")
    story.poll(A, 0, 1, {0: "a"}, committed=False)
    assert found(story) == set()


def test_a_read_that_overlaps_the_commit_may_see_it() -> None:
    story = Story()
    story.append("t", A, "a")
    story.event("r", Kind.INVOKE, Poll(Isolation.READ_COMMITTED))
    story.commit("t")
    seen = Span(A, 0, 1, (SeenRecord(0, "key of a", "a"),))
    story.event("r", Kind.OK, Poll(Isolation.READ_COMMITTED, (seen,)))
    assert found(story) == set()


# -- all or nothing ------------------------------------------------------------------------------------------


def test_lost_write() -> None:
    story = Story()
    story.append("t", A, "a")
    story.commit("t")
    story.read_to_the_end(A, 2, {})
    (finding,) = check(story.events).findings
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
    story = Story()
    story.append("t", A, "a")
    story.append("t", B, "b")
    story.commit("t", kind)
    story.read_to_the_end(A, 2, {0: "a"})
    story.read_to_the_end(B, 2, {})
    assert found(story) == anomalies


def test_partitions_need_not_show_a_transaction_at_the_same_moment() -> None:
    story = Story()
    story.append("t", A, "a")
    story.append("t", B, "b")
    story.commit("t")
    story.poll(A, 0, 2, {0: "a"})
    story.poll(B, 0, 0, {})
    assert found(story) == set()
    story.read_to_the_end(B, 2, {0: "b"})
    assert found(story) == set()


def test_nothing_is_lost_as_long_as_somebody_may_still_find_it() -> None:
    story = Story()
    story.append("t", A, "a", "a2")
    story.commit("t")
    story.list_end(A, 3, final=True)
    story.poll(A, 1, 3, {1: "a2"})
    verdict = check(story.events)
    assert verdict.valid
    assert verdict.unproven == {A}
    assert "orders-0" in str(verdict)


def test_an_unknown_transaction_may_be_gone_as_a_whole() -> None:
    story = Story()
    story.append("t", A, "a")
    story.append("t", B, "b")
    story.commit("t", Kind.INFO)
    story.read_to_the_end(A, 2, {})
    story.read_to_the_end(B, 2, {})
    assert found(story) == set()


def test_a_refused_append_is_not_missed() -> None:
    story = Story()
    story.append("t", A, "a")
    story.append("t", A, "refused", kind=Kind.FAIL)
    story.commit("t")
    story.read_to_the_end(A, 2, {0: "a"})
    assert found(story) == set()


# -- the log -------------------------------------------------------------------------------------------------


def test_duplicate() -> None:
    story = Story()
    story.append("t", A, "a")
    story.commit("t")
    story.poll(A, 0, 2, {0: "a", 1: "a"})
    assert found(story) == {Anomaly.DUPLICATE}


def test_a_duplicate_that_only_readers_of_uncommitted_data_see() -> None:
    story = Story()
    story.append("t", A, "a")
    story.abort("t")
    story.poll(A, 0, 1, {0: "a"}, committed=False)
    story.poll(A, 1, 2, {1: "a"}, committed=False)
    assert found(story) == {Anomaly.DUPLICATE}


def test_reordered() -> None:
    story = Story()
    story.append("t1", A, "a1")
    story.commit("t1")
    story.append("t2", A, "a2")
    story.commit("t2")
    story.poll(A, 0, 4, {0: "a2", 2: "a1"})
    assert found(story) == {Anomaly.REORDERED}


def test_producers_have_no_order_among_each_other_and_partitions_neither() -> None:
    """Write cycles: t1 before t2 in one partition and after it in another. Kafka does not isolate writers."""
    story = Story()
    for transaction, process in (("t1", "p"), ("t2", "q")):
        story.append(transaction, A, f"a {transaction}", by=process)
        story.append(transaction, B, f"b {transaction}", by=process)
    story.commit("t1", by="p")
    story.commit("t2", by="q")
    story.read_to_the_end(A, 4, {0: "a t1", 1: "a t2"})
    story.read_to_the_end(B, 4, {0: "b t2", 1: "b t1"})
    assert found(story) == set()


@pytest.mark.parametrize("elements", [{0: "never written"}, {0: "of another partition"}, {0: "refused"}])
def test_phantom(elements: dict[int, str]) -> None:
    story = Story()
    story.append("t", B, "of another partition")
    story.append("t", A, "refused", kind=Kind.FAIL)
    story.commit("t")
    story.poll(A, 0, 1, elements)
    assert found(story) == {Anomaly.PHANTOM}


def test_a_record_that_vanishes() -> None:
    story = Story()
    story.append("t", A, "a")
    story.commit("t")
    story.poll(A, 0, 2, {0: "a"})
    story.poll(A, 0, 2, {}, by="another reader")
    (finding,) = check(story.events).findings
    assert finding.anomaly is Anomaly.INCONSISTENT_READ
    assert "seen before" in finding.what


def test_a_record_that_appears_behind_a_reader() -> None:
    story = Story()
    story.append("t", A, "a")
    story.commit("t")
    story.poll(A, 0, 2, {}, by="too early")
    story.poll(A, 0, 2, {0: "a"})
    (finding,) = check(story.events).findings
    assert finding.anomaly is Anomaly.INCONSISTENT_READ
    assert "seen after" in finding.what


def test_readers_of_uncommitted_data_see_what_the_others_see() -> None:
    story = Story()
    story.append("t", A, "a")
    story.commit("t")
    story.poll(A, 0, 2, {0: "a"})
    story.poll(A, 0, 2, {}, committed=False)
    assert found(story) == {Anomaly.INCONSISTENT_READ}


def test_an_offset_with_two_contents() -> None:
    story = Story()
    story.append("t", A, "a", "b")
    story.commit("t")
    story.poll(A, 0, 1, {0: "a"})
    story.poll(A, 0, 1, {0: "b"})
    assert found(story) == {Anomaly.INCONSISTENT_READ}


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_that_goes_back(committed: bool) -> None:
    story = Story()
    for end in (3, 5, 4):
        story.list_end(A, end, committed=committed)
    (finding,) = check(story.events).findings
    assert finding.anomaly is Anomaly.END_WENT_BACK
    assert "from 5 to 4" in finding.what


def test_a_leader_that_was_followed_by_another_may_tell_an_old_end() -> None:
    story = Story()
    story.list_end(A, 5, leader_epoch=2)
    story.list_end(A, 4, leader_epoch=1)
    assert found(story) == set()


@pytest.mark.parametrize("epoch", [2, 3])
def test_neither_a_leader_nor_its_successor_may(epoch: int) -> None:
    story = Story()
    story.list_end(A, 5, leader_epoch=2)
    story.list_end(A, 4, leader_epoch=1)
    story.list_end(A, 4, leader_epoch=epoch)
    (finding,) = check(story.events).findings
    assert finding.anomaly is Anomaly.END_WENT_BACK
    assert f"orders-0: 4 (leader epoch {epoch})" in str(finding)


def test_ends_of_one_partition_say_nothing_of_another() -> None:
    story = Story()
    story.list_end(A, 5, committed=False)
    story.list_end(A, 3, committed=True)
    story.list_end(B, 2, committed=False)
    assert found(story) == set()


def test_hanging_transaction() -> None:
    story = Story()
    story.append("t", A, "a")
    story.abort("t", Kind.INFO)
    story.list_end(A, 0, final=True)
    story.list_end(A, 1, committed=False, final=True)
    assert found(story) == {Anomaly.HANGING_TRANSACTION}


def test_offsets_that_are_held_back_for_ever() -> None:
    story = Story()
    story.fetch_offset(UNSTABLE)
    assert found(story) == set()
    story.fetch_offset(UNSTABLE, final=True)
    assert found(story) == {Anomaly.HANGING_TRANSACTION}


# -- offsets in transactions ---------------------------------------------------------------------------------


def copied(story: Story, transaction: str, first: int, end: int, *, offset: int) -> None:
    """Consume, transform, produce: the output of [first, end), read at ``offset``."""
    story.append(transaction, A, f"out {transaction}")
    story.offsets(transaction, first, end)
    story.commit(transaction)
    story.poll(A, offset, offset + 2, {offset: f"out {transaction}"})


def two_copies() -> Story:
    story = Story()
    story.fetch_offset(-1)
    copied(story, "t1", 0, 3, offset=0)
    story.fetch_offset(3)
    copied(story, "t2", 3, 8, offset=2)
    return story


def test_offsets_in_step() -> None:
    story = two_copies()
    story.fetch_offset(8, final=True)
    assert found(story) == set()


@pytest.mark.parametrize(
    ("offset", "why"),
    [(3, "t2 had committed 8 before"), (-1, "t2 had committed 8"), (9, "no transaction ever sent that")],
)
def test_an_offset_that_nobody_committed_or_that_went_back(offset: int, why: str) -> None:
    story = two_copies()
    story.fetch_offset(offset)
    (finding,) = check(story.events).findings
    assert finding.anomaly is Anomaly.OFFSETS_OUT_OF_STEP
    assert why in finding.what


def test_offsets_of_an_aborted_transaction() -> None:
    story = two_copies()
    story.offsets("t3", 8, 9)
    story.abort("t3")
    story.fetch_offset(9)
    assert found(story) == {Anomaly.OFFSETS_OUT_OF_STEP}


def test_offsets_of_a_transaction_that_is_still_open() -> None:
    story = two_copies()
    story.offsets("t3", 8, 9)
    story.fetch_offset(9)
    story.commit("t3")
    assert found(story) == {Anomaly.OFFSETS_OUT_OF_STEP}


def test_a_stretch_that_was_processed_twice() -> None:
    story = two_copies()
    copied(story, "t3", 3, 8, offset=4)
    (finding,) = check(story.events).findings
    assert finding.anomaly is Anomaly.OFFSETS_OUT_OF_STEP
    assert "offset 3 of source-0 for g was processed twice: by t2 and by t3" in finding.what


def test_outputs_without_their_offsets() -> None:
    story = two_copies()
    story.append("t3", A, "out t3")
    story.offsets("t3", 8, 9)
    story.commit("t3", Kind.INFO)
    story.poll(A, 4, 6, {4: "out t3"})
    story.fetch_offset(8, final=True)
    assert found(story) == {Anomaly.OFFSETS_OUT_OF_STEP}


def test_offsets_without_their_outputs() -> None:
    story = two_copies()
    story.append("t3", B, "out t3")
    story.offsets("t3", 8, 9)
    story.commit("t3", Kind.INFO)
    story.read_to_the_end(B, 2, {})
    story.fetch_offset(9, final=True)
    assert found(story) == {Anomaly.OFFSETS_OUT_OF_STEP}


def test_a_gap_in_what_was_processed() -> None:
    story = two_copies()
    story.offsets("t3", 9, 12)
    story.commit("t3")
    story.fetch_offset(12, final=True)
    (finding,) = check(story.events).findings
    assert finding.anomaly is Anomaly.OFFSETS_OUT_OF_STEP
    assert "became of the records before 9" in finding.what


def test_offsets_of_a_group_that_no_transaction_moves() -> None:
    story = Story()
    story.fetch_offset(-1, final=True)
    assert found(story) == set()
    assert SOURCE not in check(story.events).unproven
