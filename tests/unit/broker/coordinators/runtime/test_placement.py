from __future__ import annotations

import sys

import pytest

from ruslo.broker.coordinators.runtime.placement import partition_of


# Java's String.hashCode of each id is 0, 96354, -1354792126, 3079, 9731, -2^31.
@pytest.mark.parametrize(
    ("group_id", "partition"),
    [
        ("", 0),
        ("abc", 96_354 % 50),
        ("config", 1_354_792_126 % 50),
        ("\u2603", 9_731 % 50),
        ("polygenelubricants", 0),
    ],
)
def test_groups_have_the_same_partition_as_in_kafka(group_id: str, partition: int) -> None:
    assert partition_of(group_id, 50) == partition


def test_supplementary_characters_count_as_two() -> None:
    # U+1F600 is the pair D83D DE00: 0xD83D * 31 + 0xDE00.
    assert partition_of("\U0001f600", 1_000_003) == (0xD83D * 31 + 0xDE00) % 1_000_003


def test_very_long_ids_are_not_cached() -> None:
    """A client that finds the coordinators of thousands of them must not fill the memory."""
    key = "".join(["x"] * 32_767)
    before = sys.getrefcount(key)
    assert partition_of(key, 50) == partition_of(key, 50)
    assert sys.getrefcount(key) == before
