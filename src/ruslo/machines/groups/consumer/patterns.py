"""Topic patterns: RE2 regular expressions, whose matching time is linear in the length of the name.

Apache Kafka uses RE2/J, which has the same syntax. A pattern must match the whole name; internal topics match
too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from ruslo.model.errors import ErrorCode, KafkaError

_Matcher: TypeAlias = Callable[[str], object | None]


def check_pattern(pattern: str) -> None:
    """Raise KafkaError for an invalid pattern."""
    _matcher(pattern)


def matching_topics(pattern: str, names: Iterable[str]) -> tuple[str, ...]:
    """The matching names, sorted."""
    matches = _matcher(pattern)
    return tuple(sorted(name for name in names if matches(name) is not None))


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """A function that tests whether a whole name matches; raises KafkaError for an invalid pattern."""
    matches = _matcher(pattern)
    return lambda name: matches(name) is not None


def _matcher(pattern: str) -> _Matcher:
    # Most brokers never need the library.
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        matcher: _Matcher = re2.compile(pattern, options).fullmatch
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if error.args else error
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"{pattern!r} is not an RE2 regular expression: {text}",
        ) from None
    return matcher
