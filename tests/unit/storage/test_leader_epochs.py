from __future__ import annotations

import pytest

from ruslo.storage.leader_epochs import EpochEnd, LeaderEpochCache


def cache() -> LeaderEpochCache:
    return LeaderEpochCache([(1, 0), (3, 20), (7, 50)])


class TestAssign:
    def test_the_same_epoch_again_changes_nothing(self) -> None:
        epochs = cache()
        epochs.assign(7, 60)
        assert epochs.entries() == [(1, 0), (3, 20), (7, 50)]
        assert not epochs.dirty

    def test_a_new_epoch(self) -> None:
        epochs = cache()
        epochs.assign(8, 60)
        assert epochs.entries()[-1] == (8, 60)
        assert epochs.latest == 8
        assert epochs.dirty

    def test_entries_without_records_are_replaced(self) -> None:
        epochs = cache()
        epochs.assign(8, 50)
        assert epochs.entries() == [(1, 0), (3, 20), (8, 50)]

    def test_lower_epoch_removes_higher_ones(self) -> None:
        epochs = cache()
        epochs.assign(4, 30)
        assert epochs.entries() == [(1, 0), (3, 20), (4, 30)]


@pytest.mark.parametrize(
    ("epoch", "end"),
    [
        (7, EpochEnd(7, 90)),
        (8, EpochEnd(-1, -1)),
        (-1, EpochEnd(-1, -1)),
        (0, EpochEnd(0, 0)),
        (1, EpochEnd(1, 20)),
        (2, EpochEnd(1, 20)),
        (3, EpochEnd(3, 50)),
        (6, EpochEnd(3, 50)),
    ],
)
def test_end_of_an_epoch(epoch: int, end: EpochEnd) -> None:
    assert cache().end_of(epoch, 90) == end


def test_an_empty_cache_has_no_end() -> None:
    assert LeaderEpochCache().end_of(0, 90) == EpochEnd(-1, -1)


@pytest.mark.parametrize(("offset", "epoch"), [(0, 1), (19, 1), (20, 3), (1000, 7)])
def test_epoch_at_an_offset(offset: int, epoch: int) -> None:
    assert cache().epoch_at(offset) == epoch


class TestTruncation:
    @pytest.mark.parametrize(("end", "left"), [(60, 3), (50, 2), (49, 2), (20, 1), (0, 0)])
    def test_from_the_end(self, end: int, left: int) -> None:
        epochs = cache()
        epochs.truncate_from_end(end)
        assert epochs.entries() == [(1, 0), (3, 20), (7, 50)][:left]
        assert epochs.latest == (-1, 1, 3, 7)[left]

    @pytest.mark.parametrize(
        ("start", "entries"),
        [
            (0, [(1, 0), (3, 20), (7, 50)]),
            (5, [(1, 5), (3, 20), (7, 50)]),
            (20, [(3, 20), (7, 50)]),
            (25, [(3, 25), (7, 50)]),
            (500, [(7, 500)]),
        ],
    )
    def test_from_the_start_the_last_passed_entry_is_rebased(
        self, start: int, entries: list[tuple[int, int]]
    ) -> None:
        epochs = cache()
        epochs.truncate_from_start(start)
        assert epochs.entries() == entries


@pytest.mark.parametrize(("offset", "epoch"), [(90, 7), (51, 7), (50, 3), (20, 1), (1, 1), (0, -1)])
def test_epoch_of_the_last_record_before_an_offset(offset: int, epoch: int) -> None:
    assert cache().epoch_before(offset) == epoch
    assert LeaderEpochCache().epoch_before(offset) == -1
