from __future__ import annotations

from ruslo.machines.share_partition.key_order import KeyOrder


def test_records_of_a_key_follow_each_other() -> None:
    order = KeyOrder()
    assert [order.add(0, 7), order.add(1, 8), order.add(2, 7), order.add(3, 7)] == [True, True, False, False]
    assert order.finish(0, 1) == [2]
    assert order.add(2, 7), "adding a record again changes nothing"
    assert not order.add(3, 7)
    assert order.finish(2, 2) == [3]
    assert order.finish(3, 3) == []
    assert not order


def test_finished_records_behind_the_first_are_skipped() -> None:
    order = KeyOrder()
    for offset in range(4):
        order.add(offset, 7)
    assert order.finish(1, 2) == []
    assert order.finish(0, 0) == [3]
    order.remove_before(3)
    assert order.finish(3, 9) == []


def test_a_gap_of_the_log_takes_no_memory() -> None:
    order = KeyOrder()
    assert order.add(0, 7)
    assert not order.add(1 << 60, 7)
    assert order.finish(0, 1 << 59) == [1 << 60]
