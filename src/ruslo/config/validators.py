"""Validators of a single value: each returns the problem and its fix, or None.

``str(validator)`` is the valid range in the notation of Kafka's reference; the generated page shows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Final, NamedTuple, Protocol

from ruslo.config.iso_duration import iso_duration_ms
from ruslo.model.secret import Secret

ConfigValue = bool | int | float | str | Secret | tuple[str, ...] | None

# Compiled on first use: compiling is slow, and few starts need them.
_HOST_PORT: Final = r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)"
_REPLICA: Final = r"(?:[0-9]+:[0-9]+)?"


class Problem(NamedTuple):
    reason: str
    fix: str


class Validator(Protocol):
    def problem(self, value: ConfigValue) -> Problem | None: ...


class Range(NamedTuple):
    """A number between two limits, both included. None means no limit; ``also`` is valid as well."""

    low: float | None
    high: float | None = None
    also: int | None = None

    def problem(self, value: ConfigValue) -> Problem | None:
        assert value is None or isinstance(value, (int, float))
        if value is None:
            return Problem("a number is required", f"use a number in {self}")
        if value == self.also:
            return None
        # Written so that NaN, which compares false with everything, is invalid.
        if self.low is not None and not value >= self.low:
            return Problem(f"it is below the minimum {self.low}", f"use a number in {self}")
        if self.high is not None and not value <= self.high:
            return Problem(f"it is above the maximum {self.high}", f"use a number in {self}")
        return None

    def __str__(self) -> str:
        text = f"[{self.low},...]" if self.high is None else f"[{self.low},...,{self.high}]"
        return text if self.also is None else f"{text} or {self.also}"


class OneOf:
    """One of a fixed set of words."""

    __slots__ = ("ignore_case", "words")

    def __init__(self, *words: str, ignore_case: bool = False) -> None:
        self.words = words
        self.ignore_case = ignore_case

    def problem(self, value: ConfigValue) -> Problem | None:
        if isinstance(value, str) and (
            value in self.words or (self.ignore_case and value.upper() in self.words)
        ):
            return None
        return Problem("it is not a known value", f"use one of {', '.join(self.words)}")

    def __str__(self) -> str:
        words = f"[{', '.join(self.words)}]"
        return f"(case insensitive) {words}" if self.ignore_case else words


class Items:
    """A list without empty items, of ``words`` only if any are given. Duplicates are dropped (KIP-1161)."""

    __slots__ = ("may_be_empty", "may_be_null", "words")

    def __init__(self, *words: str, may_be_empty: bool = True, may_be_null: bool = False) -> None:
        self.words = words
        self.may_be_empty = may_be_empty
        self.may_be_null = may_be_null

    def problem(self, value: ConfigValue) -> Problem | None:
        if value is None:
            return None if self.may_be_null else Problem("a list is required", self._fix())
        assert isinstance(value, tuple)
        if not value and not self.may_be_empty:
            return Problem("the list is empty", self._fix())
        if "" in value:
            return Problem("the list has an empty item", "remove the extra comma")
        if self.words:
            for item in value:
                if item not in self.words:
                    return Problem(f"{item!r} is not a known value", self._fix())
        return None

    def _fix(self) -> str:
        return f"list some of {', '.join(self.words)}" if self.words else "list at least one item"

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}]" if self.words else ""


class Check(NamedTuple):
    """A rule without parameters. ``text`` describes valid values, as in Kafka's reference."""

    text: str
    problem: Callable[[ConfigValue], Problem | None]

    def __str__(self) -> str:
        return self.text


def _null_problem(value: ConfigValue) -> Problem | None:
    return Problem("a value is required", "set it, or set it to an empty string") if value is None else None


def _blank_problem(value: ConfigValue) -> Problem | None:
    return Problem("it is empty", "set a value, or remove the line") if value == "" else None


def _replicas_problem(value: ConfigValue) -> Problem | None:
    assert isinstance(value, tuple)
    if "".join(value) == "*" or all(re.fullmatch(_REPLICA, item) for item in value):
        return None
    return Problem(
        "it is not a list of replicas",
        "use '*' or a list such as 0:1,1:2 (partition:broker, partition:broker)",
    )


def _voters_problem(value: ConfigValue) -> Problem | None:
    assert isinstance(value, tuple)
    for item in value:
        node_id, at, address = item.partition("@")
        if not at or "@" in address or not node_id.isdecimal() or split_host_port(address) is None:
            return Problem(f"{item!r} is not a voter", "write each voter as id@host:port, e.g. 1@host1:9093")
    return None


def _servers_problem(value: ConfigValue) -> Problem | None:
    assert isinstance(value, tuple)
    for item in value:
        if split_host_port(item) is None:
            return Problem(f"{item!r} is not an address", "write each server as host:port, e.g. host1:9093")
    return None


def _address_problem(value: ConfigValue) -> Problem | None:
    if not value or (isinstance(value, str) and split_host_port(value) is not None):
        return None
    return Problem("it is not an address", "write host:port, e.g. 127.0.0.1:9404, or leave it empty")


NOT_NULL = Check("non-null string", _null_problem)
NOT_BLANK = Check("non-empty string", _blank_problem)
"""Unset, or a string that is not empty."""
THROTTLED_REPLICAS = Check("[partitionId]:[brokerId],[partitionId]:[brokerId],...", _replicas_problem)
"""``*`` or a list of ``partition:broker`` (KIP-73)."""
QUORUM_VOTERS = Check("non-empty list", _voters_problem)
HOST_PORTS = Check("non-empty list", _servers_problem)
HOST_PORT_OR_NONE = Check("host:port or empty", _address_problem)


class OffsetReset:
    """The start offset of a consumer: a word, or ``by_duration:`` and an ISO 8601 duration (KIP-1106)."""

    __slots__ = ("ages", "words")

    def __init__(self, *more_words: str, ages: bool = True) -> None:
        self.words = ("latest", "earliest", *more_words)
        self.ages = ages
        """False: the caller rejects ``by_duration:`` itself, with a reason."""

    def problem(self, value: ConfigValue) -> Problem | None:
        if value in self.words:
            return None
        if isinstance(value, str) and value.startswith("by_duration:"):
            if iso_duration_ms(value.removeprefix("by_duration:")) is not None:
                return None
            return Problem(
                "the duration is not ISO 8601", "write it like by_duration:PT1H or by_duration:P3D"
            )
        words = ", ".join(self.words)
        age = " or by_duration:PT1H" if self.ages else ""
        return Problem("it is not a known value", f"use {words}{age}")

    def __str__(self) -> str:
        words = [*self.words, "by_duration:PnDTnHnMn.nS"] if self.ages else self.words
        return f"[{', '.join(words)}]"


def split_host_port(address: str) -> tuple[str, int] | None:
    """Host and port of ``host:port`` or ``[ipv6]:port``, or None for invalid syntax."""
    match = re.fullmatch(_HOST_PORT, address)
    if match is None or int(match[2]) > 65535:
        return None
    return match[1], int(match[2])


def at_least(low: int) -> Range:
    return Range(low)


def between(low: float, high: float) -> Range:
    return Range(low, high)


def word_list(words: Collection[str]) -> str:
    """The words for a sentence: sorted and separated by commas, or 'none'."""
    return ", ".join(sorted(words)) or "none"
