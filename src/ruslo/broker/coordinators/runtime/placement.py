"""The partition of a coordinator's topic that stores an id, by Kafka's hash."""

from __future__ import annotations

from functools import lru_cache

CACHED_ID_MAX_CHARS = 256
"""Longer ids are not cached: clients may send ids of 32 KB, which would fill the memory."""


def partition_of(key: str, partition_count: int) -> int:
    if len(key) <= CACHED_ID_MAX_CHARS:
        return _cached_partition_of(key, partition_count)
    return _partition_of(key, partition_count)


def _partition_of(key: str, partition_count: int) -> int:
    return _absolute(_java_hash(key)) % partition_count


_cached_partition_of = lru_cache(maxsize=65_536)(_partition_of)


def _java_hash(text: str) -> int:
    """Java's ``String.hashCode``: over UTF-16 units, in 32 bits."""
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
    # The absolute value of the smallest 32-bit number does not fit into 32 bits; Kafka uses 0.
    return 0 if value == -0x8000_0000 else abs(value)
