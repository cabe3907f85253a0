"""Chooses partitions as Kafka's own producers do."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import types

from ruslo.pipeline.decode.compiled import BYTES, INT32S, INT64, INT64S, compiled

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_R = np.uint32(24)
_FLAGS = types.Array(types.boolean, 1, "C", readonly=True)

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]


@compiled(types.void(BYTES, INT64S, _FLAGS, INT64, INT32S))
def partitions_of_keys(data: Bytes, offsets: Int64s, present: Flags, partitions: int, out: Int32s) -> None:
    """murmur2 of each key modulo the partition count, as in Java's default partitioner; -1 without a key."""
    for row in range(len(present)):
        if not present[row]:
            out[row] = -1
            continue
        at, end = offsets[row], offsets[row + 1]
        length = np.uint32(end - at)
        h = _SEED ^ length
        while end - at >= 4:
            k = (
                np.uint32(data[at])
                | np.uint32(data[at + 1]) << np.uint32(8)
                | np.uint32(data[at + 2]) << np.uint32(16)
                | np.uint32(data[at + 3]) << np.uint32(24)
            )
            k = np.uint32(k * _M)
            k ^= k >> _R
            k = np.uint32(k * _M)
            h = np.uint32(np.uint32(h * _M) ^ k)
            at += 4
        left = end - at
        if left > 2:
            h ^= np.uint32(data[at + 2]) << np.uint32(16)
        if left > 1:
            h ^= np.uint32(data[at + 1]) << np.uint32(8)
        if left > 0:
            h = np.uint32((h ^ np.uint32(data[at])) * _M)
        h ^= h >> np.uint32(13)
        h = np.uint32(h * _M)
        h ^= h >> np.uint32(15)
        out[row] = np.int32(np.int64(h & np.uint32(0x7FFFFFFF)) % partitions)


def stick_keyless(
    targets: Int32s, sizes: Int64s, partitions: int, already: int, bytes_per_partition: int
) -> int:
    """Assign partitions to records without a key, in place: sticky until a partition got its share of bytes.

    Kafka's producers do the same to fill batches (KIP-480, KIP-794). ``already`` counts the bytes assigned
    before; returns the new count.
    """
    keyless = np.flatnonzero(targets < 0)
    if len(keyless) == 0:
        return already
    after = already + np.cumsum(sizes[keyless])
    before = after - sizes[keyless]
    targets[keyless] = (before // bytes_per_partition) % partitions
    return int(after[-1])
