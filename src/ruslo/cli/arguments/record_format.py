"""``ruslo consume --format``: a format string with the letters of kcat.

============  =================================================  ============  =======================
``%s``        value                                              ``%t``        topic
``%S``        value's length, -1 for null                        ``%p``        partition
``%R``        value's length as 4 bytes, big endian              ``%o``        offset
``%k`` ``%K`` key and its length                                 ``%T``        timestamp, ms since 1970
``%h``        headers as name=value, separated by commas         ``%%``        a percent sign
============  =================================================  ============  =======================

``\\n \\r \\t \\\\ \\0 \\xHH`` are C escapes.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ruslo.cli.arguments.escapes import unescape

if TYPE_CHECKING:
    from ruslo.client.views.record_json import ReadRecord

Encoder: TypeAlias = Callable[[bytes], bytes]
Formatter: TypeAlias = "Callable[[ReadRecord], bytes]"

ENCODERS: dict[str, Encoder] = {
    "raw": bytes,
    "hex": lambda data: data.hex().encode(),
    "base64": base64.b64encode,
}

_TOKEN = re.compile(rb"%(.)", re.DOTALL)


def compile_format(
    text: str,
    *,
    null: bytes = b"",
    encode: Encoder = bytes,
    letters: Mapping[bytes, Callable[[Any], bytes]] = {},
) -> Formatter:
    """Compile a format. Raises ValueError for an unknown letter. ``letters`` adds letters to those above."""
    template = unescape(text)
    parts: list[bytes | Formatter] = []
    end = 0
    for match in _TOKEN.finditer(template):
        parts.append(template[end : match.start()])
        end = match.end()
        parts.append(letters.get(match[1]) or _part(match[1], null, encode, letters))
    tail = template[end:]
    if tail.endswith(b"%"):
        raise ValueError("a % at the end is not a format letter: write %% for a percent sign")
    parts.append(tail)
    pieces = [part for part in parts if part != b""]

    def write(record: ReadRecord) -> bytes:
        return b"".join([piece if isinstance(piece, bytes) else piece(record) for piece in pieces])

    return write


def _part(letter: bytes, null: bytes, encode: Encoder, letters: Mapping[bytes, object]) -> bytes | Formatter:
    def shown(data: bytes | None) -> bytes:
        return null if data is None else encode(data)

    def headers(record: ReadRecord) -> bytes:
        return b",".join(name.encode() + b"=" + shown(value) for name, value in record.headers)

    table: dict[bytes, bytes | Formatter] = {
        b"%": b"%",
        b"s": lambda record: shown(record.value),
        b"S": lambda record: b"%d" % _length(record.value),
        b"R": lambda record: struct.pack(">i", _length(record.value)),
        b"k": lambda record: shown(record.key),
        b"K": lambda record: b"%d" % _length(record.key),
        b"t": lambda record: record.topic.encode(),
        b"p": lambda record: b"%d" % record.partition,
        b"o": lambda record: b"%d" % record.offset,
        b"T": lambda record: b"%d" % record.timestamp_ms,
        b"h": headers,
    }
    if letter not in table:
        more = "".join(f" %{each.decode()}" for each in letters)
        raise ValueError(
            f"unknown %{letter.decode(errors='replace')}: use %s %S %R %k %K %t %p %o %T %h{more} or %%"
        )
    return table[letter]


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)
