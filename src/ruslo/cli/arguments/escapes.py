"""C escapes in delimiters and format strings: ``\\n \\r \\t \\\\ \\0 \\xHH``."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_SIMPLE_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\", "0": b"\0"}


def unescape(text: str) -> bytes:
    """The bytes of a text with C escapes. Raises ValueError for an unknown escape."""
    out = bytearray()
    end = 0
    for match in _ESCAPE.finditer(text):
        out += text[end : match.start()].encode()
        end = match.end()
        code = match[1]
        if len(code) == 3:
            out.append(int(code[1:], 16))
        elif code in _SIMPLE_ESCAPES:
            out += _SIMPLE_ESCAPES[code]
        else:
            raise ValueError(f"unknown escape {match[0]!r}: use \\n \\r \\t \\\\ \\0 or \\xHH")
    tail = text[end:]
    if tail.endswith("\\"):
        raise ValueError("a backslash at the end is not an escape: write \\\\ for a backslash")
    return bytes(out + tail.encode())
