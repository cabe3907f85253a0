"""Which clients a client metrics subscription applies to (KIP-714): the patterns of its config ``match``.

A pattern is ``ATTRIBUTE=REGEX``, and the expression must match the whole value. A client matches if all
patterns match, and a subscription without patterns applies to every client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

MATCH_ATTRIBUTES: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)

_MAX_MEMORY_BYTES: Final = 8 << 20
"""RE2's own default: an expression that needs more, compiled or while it matches, is rejected."""

_Matcher: TypeAlias = Callable[[str], Any]


class ClientMatch:
    """The compiled patterns of a subscription."""

    __slots__ = ("_matchers",)

    def __init__(self, patterns: Iterable[str]) -> None:
        """Raises ValueError with the reason for an invalid pattern. The last pattern of an attribute counts,
        as in Kafka."""
        self._matchers: dict[str, _Matcher] = {}
        for pattern in patterns:
            name, equals, expression = (part.strip() for part in pattern.partition("="))
            if not equals or not expression or "=" in expression:
                raise ValueError(f"{pattern!r} is not of the form ATTRIBUTE=REGEX")
            if name not in MATCH_ATTRIBUTES:
                raise ValueError(f"{name!r} is not an attribute of clients")
            self._matchers[name] = _compile(expression)

    def matches(self, attributes: Mapping[str, str]) -> bool:
        """An attribute that the client does not have matches no pattern."""
        return all(
            (value := attributes.get(name, "")) != "" and _matches(matcher, value)
            for name, matcher in self._matchers.items()
        )


def _compile(expression: str) -> _Matcher:
    """Python's own expressions take exponential time on hostile client ids; RE2's take linear time."""
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY_BYTES
    try:
        matcher: _Matcher = re2.compile(expression, options).fullmatch
    except (re2.error, UnicodeEncodeError) as error:
        raise ValueError(f"{expression!r} is not a regular expression of RE2: {error}") from None
    return matcher


def _matches(matcher: _Matcher, value: str) -> bool:
    try:
        return matcher(value) is not None
    except UnicodeEncodeError:
        return False
