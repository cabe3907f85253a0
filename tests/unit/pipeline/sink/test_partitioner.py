"""Keys go to the same partitions as with other producers."""

from __future__ import annotations

import random

import numpy as np
from kafka.partitioner.default import murmur2

from ruslo.pipeline.sink.partitioner import partitions_of_keys, stick_keyless


def partitions(keys: list[bytes | None], count: int) -> list[int]:
    data = np.frombuffer(b"".join(key or b"" for key in keys) or b"\0", np.uint8)
    offsets = np.cumsum([0, *(len(key or b"") for key in keys)], dtype=np.int64)
    present = np.array([key is not None for key in keys])
    out = np.empty(len(keys), np.int32)
    partitions_of_keys(data, offsets, present, count, out)
    found: list[int] = out.tolist()
    return found


def test_murmur2_agrees_with_another_client() -> None:
    rng = random.Random(1)
    keys: list[bytes | None] = [rng.randbytes(rng.randint(0, 40)) for _ in range(500)]
    assert partitions(keys, 97) == [(murmur2(key) & 0x7FFFFFFF) % 97 for key in keys]


def test_known_hashes_of_the_java_client() -> None:
    hashes = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    assert partitions(list(hashes), 1 << 30) == [
        (value & 0x7FFFFFFF) % (1 << 30) for value in hashes.values()
    ]


def test_null_and_empty_keys_differ() -> None:
    assert partitions([None, b""], 8) == [-1, (murmur2(b"") & 0x7FFFFFFF) % 8]


def test_keyless_records_change_partition_after_their_share_of_bytes() -> None:
    targets = np.full(6, -1, np.int32)
    targets[2] = 9
    count = stick_keyless(targets, np.full(6, 50, np.int64), 4, 0, 100)
    assert targets.tolist() == [0, 0, 9, 1, 1, 2]
    assert count == 250
    later = np.full(2, -1, np.int32)
    stick_keyless(later, np.full(2, 50, np.int64), 4, count, 100)
    assert later.tolist() == [2, 3]
