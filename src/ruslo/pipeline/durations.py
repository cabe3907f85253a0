"""Durations in pipeline files: ``500ms``, ``10s``, ``5m``, ``1h30m``, ``7d``, or ``10 minutes``."""

from __future__ import annotations

import re

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_WORDS = {
    "millisecond": "ms",
    "milliseconds": "ms",
    "sec": "s",
    "secs": "s",
    "second": "s",
    "seconds": "s",
    "minute": "m",
    "minutes": "m",
    "min": "m",
    "mins": "m",
    "hour": "h",
    "hours": "h",
    "day": "d",
    "days": "d",
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)


def duration_ms(text: str) -> int:
    """Raises ValueError for an invalid duration."""
    total, position = 0.0, 0
    while position < len(text) or position == 0:
        part = _PART.match(text, position)
        unit = None if part is None else _WORDS.get(part[2].lower(), part[2].lower())
        if part is None or unit not in _UNITS_MS:
            raise ValueError(f"invalid duration {text!r}")
        total += float(part[1]) * _UNITS_MS[unit]
        position = part.end()
    return round(total)


def spark_interval(milliseconds: int) -> str:
    """A duration for Spark's triggers and watermarks."""
    return f"{milliseconds} milliseconds"
