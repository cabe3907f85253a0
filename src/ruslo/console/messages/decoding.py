"""Decodes keys and values to text (JSON, plain text, hex, Avro), up to a limit."""

from __future__ import annotations

import codecs
import json
import re
import unicodedata
from typing import NamedTuple

from ruslo.console.messages.avro import AvroError, AvroSchema

FORMATS = ("auto", "json", "text", "hex", "avro")
_JSON_DETECTION_MAX_BYTES = 64 * 1024
_JSON_START = b'{["'
_CONTROL_CHARACTERS_MAX_SHARE = 0.1
_HEX_COLUMNS = 16
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\{\s*\}|\[\s*\]|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
"""A string, an empty object or array, a delimiter, or a number or literal."""


class Shown(NamedTuple):
    format: str
    """``json``, ``text``, ``hex``, ``avro``, ``null`` or ``empty``."""
    text: str
    size_bytes: int
    is_truncated: bool = False
    note: str | None = None
    """The reason why the requested format is not used."""


def show(data: bytes | None, wanted: str, limit: int, schema: AvroSchema | None = None) -> Shown:
    """Decode any bytes to at most about ``limit`` characters."""
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
        return _plain(data, limit)._replace(note="The data is not valid JSON.")
    if wanted == "text":
        return _text(data, limit)
    if len(data) <= _JSON_DETECTION_MAX_BYTES and data.lstrip()[:1] in _JSON_START and data.strip():
        found = _json(data, limit)
        if found is not None:
            return found
    return _plain(data, limit)


def one_line(data: bytes | None, limit: int) -> Shown:
    """The start of the data on one line, for tables."""
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
        # The limit may split a character.
        text = codecs.getincrementaldecoder("utf-8")().decode(head, final=len(data) <= len(head))
    except UnicodeDecodeError:
        return False
    control = sum(unicodedata.category(char) == "Cc" and char not in "\n\r\t" for char in text)
    return bool(text) and control <= len(text) * _CONTROL_CHARACTERS_MAX_SHARE


def _text(data: bytes, limit: int) -> Shown:
    text = data[: limit * 4].decode(errors="replace")
    is_truncated = len(text) > limit or len(data) > limit * 4
    return Shown("text", text[:limit], len(data), is_truncated)


def _json(data: bytes, limit: int) -> Shown | None:
    try:
        text = data.decode()
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    indented = indent_json(text)
    return Shown("json", indented[:limit], len(data), len(indented) > limit)


def indent_json(text: str) -> str:
    """Indent valid JSON without parsing its values, so long numbers keep all digits."""
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
    """A hex dump: position, bytes, and their ASCII characters."""
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
        return _plain(data, limit)._replace(note="Enter the topic's Avro schema below to decode the value.")
    try:
        text = schema.decode(data)
    except AvroError as error:
        return _hex(data, limit)._replace(note=str(error))
    return Shown("avro", text[:limit], len(data), len(text) > limit)
