"""Patterns of topics' names, from Python's way of writing them to POSIX's, by which librdkafka matches.

What POSIX takes for something else would match other topics than meant, or none, without a word: ``\\d`` is a
``d`` there. So it is written anew, and refused where there is no way to write it.
"""

from __future__ import annotations

import re
from typing import Final

from ruslo.model.errors import ConfigError

_RANGES: Final = {"d": "0-9", "w": "A-Za-z0-9_"}
_PLAIN_GROUP: Final = re.compile(r"\(\?(?::|P<\w+>)")


def posix_pattern(pattern: re.Pattern[str]) -> str:
    """Matches the same whole names; raises ConfigError for what POSIX cannot say."""
    if pattern.flags & ~re.UNICODE:
        raise _unknown(pattern, "flags", "write both cases, as in [Oo]rders")
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
                raise _unknown(pattern, f"{text[at : at + 3]!r}", "name the topics, or those to be read")
            written.append("(")
            at = group.end()
        else:
            written.append(text[at])
            at += 1
            if text[at - 1] in "*+?}" and text[at : at + 1] in ("?", "+"):
                at += 1  # how much is matched first makes no difference for a whole name
    return "".join(written)


def _escaped(pattern: re.Pattern[str], character: str) -> str:
    if character in _RANGES:
        return f"[{_RANGES[character]}]"
    if character.isalnum():
        raise _unknown(pattern, f"'\\{character}'", "write the characters that may stand there")
    return f"\\{character}"


def _set(pattern: re.Pattern[str], at: int) -> tuple[str, int]:
    """The set of characters that begins there, and where it ends; in POSIX's nothing can be escaped."""
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
                raise _unknown(pattern, f"'[\\{character}]'", "leave it out, if no topic's name has it")
        elif character == "-" and (at == first or text[at + 1] == "]"):
            hyphen = "-"
        else:
            written.append(character)
        at += 1
    # At the end it stands for itself.
    return f"[{negation}{''.join(written)}{hyphen}]", at + 1


def _unknown(pattern: re.Pattern[str], what: str, fix: str) -> ConfigError:
    return ConfigError(f"subscribe: {pattern.pattern!r} has {what}, by which topics cannot be matched: {fix}")
