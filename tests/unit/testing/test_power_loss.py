from __future__ import annotations

from collections import Counter
from random import Random

from ruslo.testing.power_loss import lose_unsynced
from tests.unit.storage.workbench import batch


def test_synced_bytes_remain() -> None:
    for seed in range(50):
        assert lose_unsynced(b"synced", 6, Random(seed)) == b"synced"
        assert lose_unsynced(b"synced and not", 6, Random(seed)).startswith(b"synced")


def test_any_part_of_the_rest_may_remain_or_be_zero() -> None:
    content = b"0123456789"
    left = {lose_unsynced(content, 4, Random(seed)) for seed in range(1_000)}
    boundaries = {content[:size] for size in range(4, 11)}
    zeros = {content[:size] + bytes(10 - size) for size in range(4, 10)}
    assert left == boundaries | zeros


def test_whole_batches_are_often_lost() -> None:
    size = len(batch())
    content = bytes(batch() * 4)
    sizes = Counter(len(lose_unsynced(content, size, Random(seed))) for seed in range(300))
    assert all(sizes[at * size] >= 10 for at in (1, 2, 3, 4))
    assert sum(1 for left in sizes if left % size) > 50
