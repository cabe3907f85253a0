"""Topic patterns: RE2, so that matching takes time linear in the name whatever the pattern is.

Apache Kafka uses RE2/J, the same syntax. A pattern must match the whole name; internal topics match too.
"""

from __future__ import annotations

from collections.abc import Iterable

import re2  # type: ignore[import-untyped]

from ruslo.model.errors import ErrorCode, KafkaError

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True


def check_pattern(pattern: str) -> None:
    """Raise KafkaError if it is none."""
    _compiled(pattern)


def matching_topics(pattern: str, names: Iterable[str]) -> tuple[str, ...]:
    """Those that match, sorted."""
    matches = _compiled(pattern).fullmatch
    return tuple(sorted(name for name in names if matches(name) is not None))


def _compiled(pattern: str) -> re2._Regexp:
    try:
        return re2.compile(pattern, _OPTIONS)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if error.args else error
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"{pattern!r} is no regular expression (RE2): {text}"
        ) from None
