"""Checks of one value. Each tells what is wrong and how to put it right, or None.

``str(validator)`` is the range in the notation of Kafka's own reference, which the generated page shows.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, NamedTuple, Protocol

ConfigValue = bool | int | float | str | tuple[str, ...] | None

# Compiled on first use: most starts need none of them, and compiling is slow.
_HOST_PORT: Final = r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)"
_REPLICA: Final = r"(?:[0-9]+:[0-9]+)?"
_ISO_DURATION: Final = r"(?i)P(?=\d|T\d)(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d{1,9})?S)?)?"


class Problem(NamedTuple):
    reason: str
    fix: str


class Validator(Protocol):
    def problem(self, value: ConfigValue) -> Problem | None: ...


class Range:
    """A number between two bounds, both included; a bound of None is open."""

    __slots__ = ("also", "high", "low")

    def __init__(self, low: float | None, high: float | None = None, also: int | None = None) -> None:
        self.low = low
        self.high = high
        self.also = also

    def problem(self, value: ConfigValue) -> Problem | None:
        assert value is None or isinstance(value, (int, float))
        if value is None:
            return Problem("it needs a number", f"use a number in {self}")
        if value == self.also:
            return None
        # Phrased so that a NaN, which compares false with everything, is refused.
        if self.low is not None and not value >= self.low:
            return Problem(f"it is below the least allowed value {self.low}", f"use a number in {self}")
        if self.high is not None and not value <= self.high:
            return Problem(f"it is above the greatest allowed value {self.high}", f"use a number in {self}")
        return None

    def __str__(self) -> str:
        text = f"[{self.low},...]" if self.high is None else f"[{self.low},...,{self.high}]"
        return text if self.also is None else f"{text} or {self.also}"


class OneOf:
    """One word out of a fixed set."""

    __slots__ = ("ignore_case", "words")

    def __init__(self, *words: str, ignore_case: bool = False) -> None:
        self.words = words
        self.ignore_case = ignore_case

    def problem(self, value: ConfigValue) -> Problem | None:
        if isinstance(value, str) and (
            value in self.words or (self.ignore_case and value.upper() in self.words)
        ):
            return None
        return Problem("it is not one of the known words", f"use one of {', '.join(self.words)}")

    def __str__(self) -> str:
        words = f"[{', '.join(self.words)}]"
        return f"(case insensitive) {words}" if self.ignore_case else words


class Items:
    """A list without blank items; with words given, only of those. Repeated items count once (KIP-1161)."""

    __slots__ = ("may_be_empty", "may_be_null", "words")

    def __init__(self, *words: str, may_be_empty: bool = True, may_be_null: bool = False) -> None:
        self.words = words
        self.may_be_empty = may_be_empty
        self.may_be_null = may_be_null

    def problem(self, value: ConfigValue) -> Problem | None:
        if value is None:
            return None if self.may_be_null else Problem("it needs a list", self._fix())
        assert isinstance(value, tuple)
        if not value and not self.may_be_empty:
            return Problem("the list is empty", self._fix())
        if "" in value:
            return Problem("the list has a blank item", "take out the needless comma")
        if self.words:
            for item in value:
                if item not in self.words:
                    return Problem(f"{item!r} is not one of the known words", self._fix())
        return None

    def _fix(self) -> str:
        return f"list any of {', '.join(self.words)}" if self.words else "name at least one item"

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}]" if self.words else ""


class NotNull:
    """Any text, also an empty one, but not nothing at all."""

    __slots__ = ()

    def problem(self, value: ConfigValue) -> Problem | None:
        return Problem("it needs a value", "set it, possibly to an empty text") if value is None else None

    def __str__(self) -> str:
        return "non-null string"


class NotBlank:
    """Unset, or a text with something in it."""

    __slots__ = ()

    def problem(self, value: ConfigValue) -> Problem | None:
        return Problem("it is empty", "give a value or take the line out") if value == "" else None

    def __str__(self) -> str:
        return "non-empty string"


class ThrottledReplicas:
    """``*`` or a list of ``partition:broker`` (KIP-73)."""

    __slots__ = ()

    def problem(self, value: ConfigValue) -> Problem | None:
        assert isinstance(value, tuple)
        if "".join(value) == "*" or all(re.fullmatch(_REPLICA, item) for item in value):
            return None
        return Problem(
            "it does not name replicas",
            "use '*' or a list such as 0:1,1:2 (partition:broker, partition:broker)",
        )

    def __str__(self) -> str:
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


class QuorumVoters:
    """``id@host:port`` of every controller."""

    __slots__ = ()

    def problem(self, value: ConfigValue) -> Problem | None:
        assert isinstance(value, tuple)
        for item in value:
            node_id, at, address = item.partition("@")
            if not at or "@" in address or not node_id.isdecimal() or split_host_port(address) is None:
                return Problem(
                    f"{item!r} is not a voter", "write each voter as id@host:port, e.g. 1@host1:9093"
                )
        return None

    def __str__(self) -> str:
        return "non-empty list"


class HostPorts:
    """``host:port`` of one or more servers."""

    __slots__ = ()

    def problem(self, value: ConfigValue) -> Problem | None:
        assert isinstance(value, tuple)
        for item in value:
            if split_host_port(item) is None:
                return Problem(
                    f"{item!r} is not an address", "write each server as host:port, e.g. host1:9093"
                )
        return None

    def __str__(self) -> str:
        return "non-empty list"


class HostPortOrNone:
    """``host:port``, or nothing at all."""

    __slots__ = ()

    def problem(self, value: ConfigValue) -> Problem | None:
        if not value or (isinstance(value, str) and split_host_port(value) is not None):
            return None
        return Problem("it is not an address", "write host:port, e.g. 127.0.0.1:9404, or leave it empty")

    def __str__(self) -> str:
        return "host:port or empty"


class OffsetReset:
    """Where a reader starts: a word, or ``by_duration:`` and an ISO 8601 duration (KIP-1106)."""

    __slots__ = ("ages", "words")

    def __init__(self, *more_words: str, ages: bool = True) -> None:
        self.words = ("latest", "earliest", *more_words)
        self.ages = ages
        """Whether an age may be given; where not, the reader of the setting says why."""

    def problem(self, value: ConfigValue) -> Problem | None:
        if value in self.words:
            return None
        if isinstance(value, str) and value.startswith("by_duration:"):
            if re.fullmatch(_ISO_DURATION, value.removeprefix("by_duration:")):
                return None
            return Problem(
                "the duration is not in ISO 8601", "write it like by_duration:PT1H or by_duration:P3D"
            )
        words = ", ".join(self.words)
        age = " or by_duration:PT1H" if self.ages else ""
        return Problem("it is not one of the known words", f"use {words}{age}")

    def __str__(self) -> str:
        words = [*self.words, "by_duration:PnDTnHnMn.nS"] if self.ages else self.words
        return f"[{', '.join(words)}]"


def split_host_port(address: str) -> tuple[str, int] | None:
    """The parts of ``host:port`` or ``[ipv6]:port``, or None when it has another shape."""
    match = re.fullmatch(_HOST_PORT, address)
    if match is None or int(match[2]) > 65535:
        return None
    return match[1], int(match[2])


def at_least(low: int) -> Range:
    return Range(low)


def between(low: float, high: float) -> Range:
    return Range(low, high)


def word_list(words: Collection[str]) -> str:
    """The words as a sentence shows them: sorted, or 'none'."""
    return ", ".join(sorted(words)) or "none"
