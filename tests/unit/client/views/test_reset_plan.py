from __future__ import annotations

from ruslo.client.views.reset_plan import Move
from ruslo.model.topics import TopicPartition

T0 = TopicPartition("t", 0)


def test_a_move_counts_skipped_and_replayed_offsets() -> None:
    forward = Move(T0, current=10, new=15, end=20, wanted=15)
    back = Move(T0, current=10, new=4, end=20, wanted=4)
    first = Move(T0, current=None, new=4, end=20, wanted=4)
    assert (forward.skipped, forward.replayed, forward.note) == (5, 0, None)
    assert (back.skipped, back.replayed) == (0, 6)
    assert (first.skipped, first.replayed) == (None, None)


def test_a_clamped_move_has_a_note() -> None:
    assert Move(T0, current=1, new=5, end=9, wanted=2).note == "2 requested, first is 5"
    assert Move(T0, current=1, new=9, end=9, wanted=99).note == "99 requested, last is 9"
