from __future__ import annotations

from collections import Counter
from random import Random

from ruslo.testing.power_loss import lose_unsynced
from tests.unit.storage.workbench import batch


def test_what_was_synced_is_left() -> None:
    for seed in range(50):
        assert lose_unsynced(b"synced", 6, Random(seed)) == b"synced"
        assert lose_unsynced(b"synced and not", 6, Random(seed)).startswith(b"synced")


def test_any_part_of_the_rest_may_be_left_or_zeros_in_its_place() -> None:
    content = b"0123456789"
    left = {lose_unsynced(content, 4, Random(seed)) for seed in range(1_000)}
    cuts = {content[:size] for size in range(4, 11)}
    zeros = {content[:size] + bytes(10 - size) for size in range(4, 10)}
    assert left == cuts | zeros


def test_often_whole_batches_go() -> None:
    size = len(batch())
    content = bytes(batch() * 4)
    sizes = Counter(len(lose_unsynced(content, size, Random(seed))) for seed in range(300))
    assert all(sizes[at * size] >= 10 for at in (1, 2, 3, 4))
    assert sum(1 for left in sizes if left % size) > 50
