"""The bytes of a key or a value as text: JSON, plain text, hex, Avro; as much of them as a page can bear."""

from __future__ import annotations

import codecs
import json
import re
import unicodedata
from typing import NamedTuple

from ruslo.console.messages.avro import AvroMistake, AvroSchema

FORMATS = ("auto", "json", "text", "hex", "avro")
_SNIFFED_JSON_BYTES = 64 * 1024
_JSON_BEGINS = b'{["'
_STRANGE_SHARE = 0.1
_HEX_COLUMNS = 16
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\{\s*\}|\[\s*\]|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
"""A string, something empty, a mark, or a number or word."""


class Shown(NamedTuple):
    format: str
    """``json``, ``text``, ``hex``, ``avro``, or ``null`` and ``empty`` where there is nothing to show."""
    text: str
    size_bytes: int
    is_cut: bool = False
    note: str | None = None
    """Why it is not shown as asked for."""


def show(data: bytes | None, wanted: str, limit: int, schema: AvroSchema | None = None) -> Shown:
    """At most about ``limit`` characters of it. Whatever the bytes are, there is an answer."""
    if data is None:
        return Shown("null", "null", 0)
    if not data:
        return Shown("empty", "", 0)
    if wanted == "avro":
        return _avro(data, limit, schema)
    if wanted == "hex":
        return _hex(data, limit)
    if wanted == "json":
        found = _json(data, limit)
        if found is not None:
            return found
        return _plain(data, limit)._replace(note="This is not JSON.")
    if wanted == "text":
        return _text(data, limit)
    if len(data) <= _SNIFFED_JSON_BYTES and data.lstrip()[:1] in _JSON_BEGINS and data.strip():
        found = _json(data, limit)
        if found is not None:
            return found
    return _plain(data, limit)


def one_line(data: bytes | None, limit: int) -> Shown:
    """For a table: the beginning, without regard to lines."""
    if not data:
        return show(data, "auto", limit)
    if not _looks_like_text(data):
        head = data[: limit // 4]
        return Shown("hex", head.hex(" "), len(data), len(data) > len(head))
    text = data[: limit * 4].decode(errors="replace")
    line = " ".join(text.split())
    return Shown("text", line[:limit], len(data), len(line) > limit or len(data) > limit * 4)


def _plain(data: bytes, limit: int) -> Shown:
    return _text(data, limit) if _looks_like_text(data) else _hex(data, limit)


def _looks_like_text(data: bytes) -> bool:
    head = data[:2000]
    try:
        # The cut may fall into the middle of a character.
        text = codecs.getincrementaldecoder("utf-8")().decode(head, final=len(data) <= len(head))
    except UnicodeDecodeError:
        return False
    strange = sum(unicodedata.category(char) == "Cc" and char not in "\n\r\t" for char in text)
    return bool(text) and strange <= len(text) * _STRANGE_SHARE


def _text(data: bytes, limit: int) -> Shown:
    text = data[: limit * 4].decode(errors="replace")
    is_cut = len(text) > limit or len(data) > limit * 4
    return Shown("text", text[:limit], len(data), is_cut)


def _json(data: bytes, limit: int) -> Shown | None:
    try:
        text = data.decode()
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    laid_out = indent_json(text)
    return Shown("json", laid_out[:limit], len(data), len(laid_out) > limit)


def indent_json(text: str) -> str:
    """Valid JSON with line ends and spaces; its words stay what they are, however long a number is."""
    out: list[str] = []
    depth = 0
    for match in _JSON_TOKEN.finditer(text):
        token = match[0]
        if token[0] in "{[" and len(token) == 1:
            depth += 1
            out.append(f"{token}\n{'  ' * depth}")
        elif token in ("}", "]"):
            depth -= 1
            out.append(f"\n{'  ' * depth}{token}")
        elif token == ",":
            out.append(f",\n{'  ' * depth}")
        elif token == ":":
            out.append(": ")
        else:
            out.append("".join(token.split()) if token[0] in "{[" else token)
    return "".join(out)


def _hex(data: bytes, limit: int) -> Shown:
    """As hex editors have it: position, bytes, and what of them is ASCII."""
    width = 10 + _HEX_COLUMNS * 4 + 3
    rows = max(1, limit // width)
    lines = []
    for at in range(0, min(len(data), rows * _HEX_COLUMNS), _HEX_COLUMNS):
        part = data[at : at + _HEX_COLUMNS]
        readable = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in part)
        lines.append(f"{at:08x}  {part.hex(' '):<{_HEX_COLUMNS * 3}} {readable}")
    return Shown("hex", "\n".join(lines), len(data), len(data) > rows * _HEX_COLUMNS)


def _avro(data: bytes, limit: int, schema: AvroSchema | None) -> Shown:
    if schema is None:
        return _plain(data, limit)._replace(note="Give the topic's Avro schema below to see this as Avro.")
    try:
        text = schema.decode(data)
    except AvroMistake as mistake:
        return _hex(data, limit)._replace(note=str(mistake))
    return Shown("avro", text[:limit], len(data), len(text) > limit)
