"""Translates Python patterns of topic names to POSIX, which librdkafka matches with.

POSIX reads some Python syntax differently (``\\d`` is the letter ``d``), so an untranslated pattern would
match the wrong topics, or none. Syntax that POSIX does not have is rejected.
"""

from __future__ import annotations

import re
from typing import Final

from ruslo.model.errors import ConfigError

_RANGES: Final = {"d": "0-9", "w": "A-Za-z0-9_"}
_PLAIN_GROUP: Final = re.compile(r"\(\?(?::|P<\w+>)")


def posix_pattern(pattern: re.Pattern[str]) -> str:
    """The POSIX pattern that matches the same names; raises ConfigError if POSIX cannot express it."""
    if pattern.flags & ~re.UNICODE:
        raise _unsupported(pattern, "flags", "write both cases, as in [Oo]rders")
    text = pattern.pattern
    written: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == "\\":
            written.append(_escaped(pattern, text[at + 1]))
            at += 2
        elif text[at] == "[":
            characters, at = _set(pattern, at + 1)
            written.append(characters)
        elif text.startswith("(?", at):
            group = _PLAIN_GROUP.match(text, at)
            if group is None:
                raise _unsupported(pattern, f"{text[at : at + 3]!r}", "pass a list of topic names")
            written.append("(")
            at = group.end()
        else:
            written.append(text[at])
            at += 1
            if text[at - 1] in "*+?}" and text[at : at + 1] in ("?", "+"):
                at += 1  # greediness makes no difference when the whole name must match
    return "".join(written)


def _escaped(pattern: re.Pattern[str], character: str) -> str:
    if character in _RANGES:
        return f"[{_RANGES[character]}]"
    if character.isalnum():
        raise _unsupported(pattern, f"'\\{character}'", "list the characters in brackets")
    return f"\\{character}"


def _set(pattern: re.Pattern[str], at: int) -> tuple[str, int]:
    """The bracket expression at ``at``, and the position after it; POSIX has no escapes inside one."""
    text = pattern.pattern
    negation = "^" if text[at] == "^" else ""
    first = at = at + len(negation)
    written: list[str] = []
    hyphen = ""
    while text[at] != "]" or at == first:
        character = text[at]
        if character == "\\":
            at += 1
            character = text[at]
            if character in _RANGES:
                written.append(_RANGES[character])
            elif character == "-":
                hyphen = "-"
            elif character in "._":
                written.append(character)
            else:
                raise _unsupported(pattern, f"'[\\{character}]'", "remove it: topic names do not contain it")
        elif character == "-" and (at == first or text[at + 1] == "]"):
            hyphen = "-"
        else:
            written.append(character)
        at += 1
    # A hyphen is literal at the end.
    return f"[{negation}{''.join(written)}{hyphen}]", at + 1


def _unsupported(pattern: re.Pattern[str], what: str, fix: str) -> ConfigError:
    return ConfigError(f"subscribe: {pattern.pattern!r} has {what}, which librdkafka does not support: {fix}")
