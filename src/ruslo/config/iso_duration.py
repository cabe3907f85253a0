"""Durations as ISO 8601 writes them: PT1H, P3D, PT0.5S."""

from __future__ import annotations

import re
from typing import Final

# Compiled on first use: compiling is slow, and few starts need it.
_PATTERN: Final = r"(?i)P(?=\d|T\d)(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?"
_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000)


def iso_duration_ms(text: str) -> int | None:
    """The duration in milliseconds, rounded down; None if the text is not a duration."""
    match = re.fullmatch(_PATTERN, text)
    if match is None:
        return None
    *units, seconds = match.groups(default="0")
    whole, _, fraction = seconds.partition(".")
    milliseconds = int(whole) * 1_000 + int(f"{fraction:0<3.3}")
    return milliseconds + sum(int(count) * unit for count, unit in zip(units, _UNITS_MS, strict=True))
