"""Pipes that the output of a command goes to."""

from __future__ import annotations

import select
from typing import BinaryIO


def reader_gone(stream: BinaryIO) -> bool:
    """True if the reader of stdout is gone, which only a write would otherwise reveal."""
    try:
        descriptor = stream.fileno()
    except OSError:
        return False
    poller = select.poll()
    poller.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in poller.poll(0))
