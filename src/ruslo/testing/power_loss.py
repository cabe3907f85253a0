"""The content of a file after a power failure: the synced bytes, and any part of the unsynced ones."""

from __future__ import annotations

from random import Random
from struct import Struct

from ruslo.model.buffers import ReadBuffer
from ruslo.records.batch import LENGTH_OVERHEAD

_BATCH_BOUNDARY_SHARE = 0.5
_ZEROS_SHARE = 0.15
_LENGTH = Struct(">8xi")
"""The length of a batch, after its base offset."""


def lose_unsynced(content: ReadBuffer, synced_size: int, random: Random) -> bytes:
    """Return the content after a power failure, which often ends between two batches.

    A random position is hardly ever the end of a batch; only if all remaining batches are sound, a loss must
    be detected by their offsets.
    """
    size = len(content)
    if size <= synced_size:
        return bytes(content)
    if random.random() < _BATCH_BOUNDARY_SHARE:
        left = random.choice([synced_size, *_batch_ends(content, synced_size), size])
    else:
        left = random.randint(synced_size, size)
    kept = bytes(memoryview(content)[:left])
    if random.random() < _ZEROS_SHARE:
        # The size was written, but not the content.
        kept += bytes(size - left)
    return kept


def _batch_ends(content: ReadBuffer, position: int) -> list[int]:
    """The ends of batches; in a file that is not a log it finds hardly any, which is harmless."""
    ends = []
    while position + LENGTH_OVERHEAD <= len(content):
        (length,) = _LENGTH.unpack_from(content, position)
        position += LENGTH_OVERHEAD + length
        if length <= 0 or position > len(content):
            break
        ends.append(position)
    return ends
