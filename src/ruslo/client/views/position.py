"""Positions in a topic, as users write them.

====================  ==========================================================
``start``, ``end``    the log start offset; the end offset
``42``                offset 42 in every partition
``-10``               ten records before the end of every partition
``2h``, ``90s``       this long ago (ms, s, m, h, d, w)
``2026-03-01``,       a date, or a date and time; local time without a zone
``2026-03-01T10:00Z``
``@1700000000000``    milliseconds since 1970
====================  ==========================================================
"""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import NamedTuple, TypeAlias

_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_AGO = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)\Z")
_LAST_MS = 2**63 - 1


class AtOffset(NamedTuple):
    offset: int


class BeforeEnd(NamedTuple):
    records: int


class AtTime(NamedTuple):
    timestamp_ms: int


class AtStart(NamedTuple):
    pass


Position: TypeAlias = AtStart | AtOffset | BeforeEnd | AtTime


def short_duration_ms(word: str) -> int | None:
    """Milliseconds of ``2h`` or ``90s``; None for other text."""
    match = _AGO.match(word)
    return int(float(match[1]) * _UNIT_MS[match[2]]) if match else None


def iso_time_ms(text: str) -> int:
    """Milliseconds since 1970. Earlier times become 0: ListOffsets gives negative timestamps a special
    meaning."""
    return max(0, round(datetime.fromisoformat(text).timestamp() * 1000))


def parse_position(text: str, now_ms: int | None = None) -> Position:
    word = text.strip()
    if word in ("start", "beginning", "earliest"):
        return AtStart()
    if word in ("end", "latest"):
        return BeforeEnd(0)
    if word.isdecimal():
        return AtOffset(int(word))
    if word.startswith("-") and word[1:].isdecimal():
        return BeforeEnd(int(word[1:]))
    if word.startswith("@") and word[1:].isdecimal():
        return AtTime(min(int(word[1:]), _LAST_MS))
    ago_ms = short_duration_ms(word)
    if ago_ms is not None:
        now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        return AtTime(max(0, now - ago_ms))
    try:
        return AtTime(iso_time_ms(word))
    except ValueError:
        raise ValueError(
            f"{text!r} is not a position: write start, end, an offset (42), records before the end (-10), "
            "a time ago (2h), a date and time (2026-03-01T10:00Z) or milliseconds (@1700000000000)"
        ) from None
