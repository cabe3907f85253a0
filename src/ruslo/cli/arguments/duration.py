"""Parses and prints durations: ``2h``, ``90s``, or ISO 8601 as in Kafka's tools (``PT1H30M``)."""

from __future__ import annotations

import re
import time

from ruslo.client.views.position import short_duration_ms

_ISO = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?=\d)(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?\Z",
    re.IGNORECASE,
)


def time_ago_ms(text: str) -> int:
    """The timestamp of that duration ago."""
    return max(0, time.time_ns() // 1_000_000 - parse_duration_ms(text))


def parse_duration_ms(text: str) -> int:
    word = text.strip()
    short_ms = short_duration_ms(word)
    if short_ms is not None:
        return short_ms
    match = _ISO.match(word)
    if match is None or len(word) < len("P1D"):
        raise ValueError(f"Invalid duration {text!r}. Write it as 90s, 2h, 7d or PT2H30M")
    days, hours, minutes, seconds = (float(match[name] or 0) for name in "dhms")
    return round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def shown_duration(length_ms: int) -> str:
    """The two largest units: ``2d 3h``, ``4m 5s``, ``0s``."""
    seconds = max(0, length_ms) // 1000
    parts = []
    for unit, unit_s in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, unit_s)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"
