"""Reads and writes property files as ``java.util.Properties`` does.

- A natural line ends at LF, CR or CRLF. Blank lines and lines that begin with ``#`` or ``!`` are skipped.
- An odd number of backslashes at its end joins a line with the next one, without that line's leading blanks.
- A key ends at the first unescaped ``=``, ``:`` or blank. Blanks around one separator are dropped.
- Escapes are ``\\t \\n \\r \\f`` and ``\\uXXXX``. Before any other character a backslash is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ruslo.model.errors import ConfigError

_BLANKS = " \t\f"
_NEWLINE = re.compile(r"\r\n|\r|\n")
# The key runs to the first unescaped separator; then blanks, at most one of = and :, blanks, and the value.
_KEY_VALUE = re.compile(r"((?:\\.|[^\\ \t\f=:])*\\?)[ \t\f]*(?:[=:][ \t\f]*)?(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u.{0,4}|.|$)", re.DOTALL)
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SURROGATES = re.compile("[\ud800-\udfff]")


def parse_properties(text: str) -> dict[str, str]:
    """Parse a property file; a later line overrides an earlier one. Raises ConfigError."""
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        match = _KEY_VALUE.fullmatch(line)
        assert match is not None, line
        properties[_unescape(match[1], number)] = _unescape(match[2], number)
    return properties


def decode_properties(data: bytes) -> str:
    """The text of a property file: UTF-8, or Latin-1 (which Java assumes) when it is not valid UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def format_properties(properties: Mapping[str, str]) -> str:
    """A property file that reads back as the same mapping, here and in Java; ASCII only."""
    lines = (f"{_escape(key, is_key=True)}={_escape(value)}\n" for key, value in properties.items())
    return "".join(lines)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, with continuations joined; each with the number of its first natural line."""
    joined: list[str] = []
    first = 0
    for number, natural in enumerate(_NEWLINE.split(text), start=1):
        line = natural.lstrip(_BLANKS)
        if not joined:
            if not line or line[0] in "#!":
                continue
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            joined.append(line[:-1])
            continue
        yield first, "".join([*joined, line])
        joined.clear()
    if "".join(joined):
        yield first, "".join(joined)


def _unescape(raw: str, line_number: int) -> str:
    if "\\" not in raw:
        return raw

    def replace(match: re.Match[str]) -> str:
        escape = match[1]
        if not escape.startswith("u"):
            return _CONTROL.get(escape, escape)
        if not _HEX.fullmatch(escape, 1):
            raise ConfigError(
                f"Invalid property file: \\{escape} in line {line_number} is not a character. "
                "Write \\u and four hexadecimal digits, or double the backslash to mean a backslash."
            )
        return chr(int(escape[1:], 16))

    text = _ESCAPE.sub(replace, raw)
    # A character beyond the basic plane is written as two \u escapes. Join them.
    return (
        text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if _SURROGATES.search(text)
        else text
    )


def _escape(text: str, is_key: bool = False) -> str:
    escaped: list[str] = []
    for index, char in enumerate(text):
        if char in "\t\n\r\f":
            escaped.append({"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}[char])
        elif char == " ":
            # Java would drop a leading blank of a value with the separator.
            escaped.append("\\ " if is_key or index == 0 else " ")
        elif char == "\\" or (is_key and char in "=:#!"):
            escaped.append("\\" + char)
        elif " " < char < "\x7f":
            escaped.append(char)
        else:
            units = char.encode("utf-16-be")
            escaped.extend(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
    return "".join(escaped)
