"""Topic patterns: RE2, so that matching takes time linear in the name whatever the pattern is.

Apache Kafka uses RE2/J, the same syntax. A pattern must match the whole name; internal topics match too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from ruslo.model.errors import ErrorCode, KafkaError

_Matcher: TypeAlias = Callable[[str], object | None]


def check_pattern(pattern: str) -> None:
    """Raise KafkaError if it is none."""
    _matcher(pattern)


def matching_topics(pattern: str, names: Iterable[str]) -> tuple[str, ...]:
    """Those that match, sorted."""
    matches = _matcher(pattern)
    return tuple(sorted(name for name in names if matches(name) is not None))


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Tells which names match as a whole; raises KafkaError if it is no pattern."""
    matches = _matcher(pattern)
    return lambda name: matches(name) is not None


def _matcher(pattern: str) -> _Matcher:
    # Most brokers never see a pattern; they need not load the library.
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
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"{pattern!r} is no regular expression (RE2): {text}"
        ) from None
    return matcher
