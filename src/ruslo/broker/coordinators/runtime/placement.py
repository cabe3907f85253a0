"""Which partition of a coordinator's topic an id belongs to, by Kafka's own rule."""

from __future__ import annotations

from functools import lru_cache

LONGEST_KEPT = 256
"""Ids may have 32 KB, and anybody may ask for any: so many of those would fill the memory."""


def partition_of(key: str, partition_count: int) -> int:
    if len(key) <= LONGEST_KEPT:
        return _kept_partition_of(key, partition_count)
    return _partition_of(key, partition_count)


def _partition_of(key: str, partition_count: int) -> int:
    return _absolute(_java_hash(key)) % partition_count


_kept_partition_of = lru_cache(maxsize=65_536)(_partition_of)


def _java_hash(text: str) -> int:
    """``String.hashCode``: over UTF-16 units, in 32 bits."""
    value = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            value = (value * 31 + unit) & 0xFFFFFFFF
    else:
        data = text.encode("utf-16-le", "surrogatepass")
        for at in range(0, len(data), 2):
            value = (value * 31 + data[at] + (data[at + 1] << 8)) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def _absolute(value: int) -> int:
    # In 32 bits the smallest number has no positive twin; Kafka takes 0 for it.
    return 0 if value == -0x8000_0000 else abs(value)
