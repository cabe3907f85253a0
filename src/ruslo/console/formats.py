"""Formats numbers, times and control characters; the filters of the templates."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from ruslo.model.units import human_bytes

_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff]"
)
_DASH = "–"
_UNLIMITED = 2**63 - 1
_SPECIAL_RETENTIONS = {"-1": "no limit", "-2": "as without tiered storage"}


def visible(text: str) -> str:
    """Show control characters and marks that change the text direction by their code point."""
    return _UNPRINTABLE.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text)


class Exact(str):
    """Text of a form field, which must return from the browser unchanged."""

    __slots__ = ()


def count(number: float | None) -> str:
    """The number with thin spaces between thousands."""
    return _DASH if number is None else f"{number:,.0f}".replace(",", "\u202f")


def rate(number: float | None) -> str:
    """The rate with few digits."""
    if number is None:
        return _DASH
    if number < 10:
        return f"{number:.1f}".removesuffix(".0")
    for unit in ("", "k", "M"):
        if number < 1000:
            return f"{number:.0f}{unit}" if not unit or number >= 100 else f"{number:.1f}{unit}"
        number /= 1000
    return f"{number:.1f}G"


def per_second(number: float | None) -> str:
    return _DASH if number is None else f"{rate(number)}/s"


def bytes_per_second(number: float | None) -> str:
    return _DASH if number is None else f"{size(number)}/s"


def size(number: float | None) -> str:
    return _DASH if number is None or number < 0 else human_bytes(number)


def duration(seconds: float | None) -> str:
    if seconds is None:
        return _DASH
    if seconds < 1:
        return "0 s" if seconds == 0 else f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s".removesuffix(" 0 s")
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min".removesuffix(" 0 min")
    return f"{hours // 24} d {hours % 24} h".removesuffix(" 0 h")


def ago(time_ms: float | None) -> str:
    if time_ms is None or time_ms < 0:
        return _DASH
    seconds = time.time() - time_ms / 1000
    return (
        "now"
        if abs(seconds) < 1
        else f"{duration(seconds)} ago"
        if seconds > 0
        else f"in {duration(-seconds)}"
    )


def moment(time_ms: float | None) -> str:
    """The time in UTC; milliseconds if it is outside the calendar."""
    if time_ms is None or time_ms < 0:
        return _DASH
    try:
        at = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_ms:.0f} ms"
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{int(time_ms) % 1000:03}Z"


def setting(value: str, name: str) -> str:
    """The number of a config with its unit, if the name has one: 604800000 is 7 d. Else empty."""
    unit = name.rpartition(".")[2]
    if name.endswith(("retention.ms", "retention.bytes")) and value in _SPECIAL_RETENTIONS:
        return _SPECIAL_RETENTIONS[value]
    if unit not in ("ms", "bytes", "messages") or not value.isdecimal():
        return ""
    number = int(value)
    if number >= _UNLIMITED:
        return "no limit"
    if unit == "messages":
        return ""
    if unit == "bytes":
        return size(number) if number >= 1024 else ""
    return duration(number / 1000) if number >= 1000 else ""


def with_unit(value: str | None, name: str) -> str:
    """The value of a config, followed by the number with its unit."""
    if value is None or value == "":
        return _DASH
    meaning = setting(value, name)
    return f"{value} ({meaning})" if meaning else value


def brief_addresses(bootstrap: str) -> str:
    """The first address and the number of the others."""
    first, *others = bootstrap.split(",")
    return f"{first} +{len(others)}" if others else first


def plural(number: int, one: str, many: str | None = None) -> str:
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def listed(values: Iterable[object]) -> str:
    return ", ".join(str(value) for value in values) or _DASH


FILTERS: dict[str, Callable[..., str]] = {
    "exact": Exact,
    "count": count,
    "rate": rate,
    "per_second": per_second,
    "bytes_per_second": bytes_per_second,
    "size": size,
    "setting": setting,
    "brief_addresses": brief_addresses,
    "duration": duration,
    "ago": ago,
    "moment": moment,
    "plural": plural,
    "listed": listed,
}
