"""Reads the lines of a file from its end to its beginning, in blocks, so any file needs little memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

BLOCK_BYTES = 64 * 1024
LINE_MAX_BYTES = 1024 * 1024
"""Longer lines are not read: no broker writes one."""


def lines_backwards(file: BinaryIO, end: int) -> Iterator[tuple[int, bytes]]:
    """The lines before the position ``end``, the last one first, each with the position of its first byte.

    A last line without a line break is left out: it is still being written. Each part of a line that is too
    long is an empty line, so the caller can count its work.
    """
    position = end
    tail = b""
    """The bytes from ``position`` to the next line break: the end of a line that begins before them."""
    is_oversized = False
    is_complete = False
    """Whether the end of the line in ``tail`` was seen."""
    while position > 0:
        size = min(BLOCK_BYTES, position)
        position -= size
        file.seek(position)
        block = file.read(size)
        parts = block.split(b"\n")
        for part in reversed(parts[1:]):
            begin = position + len(block) - len(part)
            if is_complete and not is_oversized and (line := part + tail):
                yield begin, line
            block = block[: len(block) - len(part) - 1]
            tail, is_oversized, is_complete = b"", False, True
        tail = parts[0] + tail
        if len(tail) > LINE_MAX_BYTES:
            tail, is_oversized = b"", True
            yield position, b""
    if is_complete and tail and not is_oversized:
        yield 0, tail
