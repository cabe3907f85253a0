"""What is left of a file when the power goes: what was synced, and any part of what was written since."""

from __future__ import annotations

from random import Random
from struct import Struct

from ruslo.model.buffers import ReadBuffer
from ruslo.records.batch import LENGTH_OVERHEAD

_AT_A_BOUNDARY = 0.5
_AS_ZEROS = 0.15
_LENGTH = Struct(">8xi")
"""Behind the base offset, with which a batch begins."""


def what_is_left(content: ReadBuffer, synced_size: int, random: Random) -> bytes:
    """Often whole batches go: a random byte is hardly ever the end of one, and only where all that is left is
    sound nothing but its offsets tells that something is missing."""
    size = len(content)
    if size <= synced_size:
        return bytes(content)
    if random.random() < _AT_A_BOUNDARY:
        left = random.choice([synced_size, *_batch_ends(content, synced_size), size])
    else:
        left = random.randint(synced_size, size)
    kept = bytes(memoryview(content)[:left])
    if random.random() < _AS_ZEROS:
        # The size was written, the content was not.
        kept += bytes(size - left)
    return kept


def _batch_ends(content: ReadBuffer, position: int) -> list[int]:
    """In what is no log this finds next to nothing, which does no harm."""
    ends = []
    while position + LENGTH_OVERHEAD <= len(content):
        (length,) = _LENGTH.unpack_from(content, position)
        position += LENGTH_OVERHEAD + length
        if length <= 0 or position > len(content):
            break
        ends.append(position)
    return ends
