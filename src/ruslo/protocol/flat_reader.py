"""Reads a message field by field, for the general paths of the hand-written codecs."""

from __future__ import annotations

from struct import Struct

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError
from ruslo.protocol.primitives import (
    STRING_BYTES_MAX,
    length_error,
    read_tag,
    read_uvarint,
    uvarint_tail,
)

_INT16 = Struct(">h")
_INT32 = Struct(">i")


MAX_ELEMENTS = 8_000
"""Most topics and partitions of a Produce or Fetch request: handling them takes 50 ms."""


def too_many_elements(name: str) -> ProtocolError:
    return ProtocolError(
        f"malformed {name}: more than {MAX_ELEMENTS} topics and partitions; send several smaller requests"
    )


class FlatReader:
    """Reads the fields of ``buf[pos:end]``; ``name`` is the message in errors."""

    __slots__ = ("_elements_left", "_flexible", "_name", "buf", "end", "pos")

    def __init__(self, name: str, buf: ReadBuffer, pos: int, end: int, flexible: bool) -> None:
        self._name = name
        self._flexible = flexible
        self._elements_left = MAX_ELEMENTS
        self.buf = buf
        self.pos = pos
        self.end = end

    def int16(self) -> int:
        value: int = _INT16.unpack_from(self.buf, self.pos)[0]
        self.pos += 2
        return value

    def int32(self) -> int:
        value: int = _INT32.unpack_from(self.buf, self.pos)[0]
        self.pos += 4
        return value

    def uuid(self) -> bytes:
        start = self._skip(16)
        return bytes(self.buf[start : self.pos])

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise length_error(f"string of {self._name}", -1, self.end - self.pos)
        return text

    def nullable_string(self) -> str | None:
        size = self._compact_length() if self._flexible else self.int16()
        if size < 0:
            return None
        if size > STRING_BYTES_MAX:
            raise length_error(f"string of {self._name}", size, self.end - self.pos)
        start = self._skip(size)
        return str(self.buf[start : self.pos], "utf-8")

    def nullable_bytes(self) -> tuple[int, int]:
        """The start and end position of the bytes; (-1, -1) if they are null."""
        size = self._length()
        if size < 0:
            return -1, -1
        return self._skip(size), self.pos

    def array_length(self) -> int:
        """The number of elements, each of at least one byte."""
        length = self._length()
        if not 0 <= length <= self.end - self.pos:
            raise length_error(f"array of {self._name}", length, self.end - self.pos)
        self._count(length)
        return length

    def int32_array(self) -> list[int]:
        length = self.array_length()
        start = self._skip(4 * length)
        return list(Struct(f">{length}i").unpack_from(self.buf, start))

    def skip_tags(self) -> None:
        """Skip the tagged fields of a struct without known tags."""
        if not self._flexible:
            return
        count = self.buf[self.pos]
        self.pos += 1
        if count > 127:
            count, self.pos = uvarint_tail(self.buf, self.pos, count)
        if count:
            self._count(count)
        tag = -1
        for _ in range(count):
            tag, _, self.pos = read_tag(self.buf, self.pos, self.end, tag)

    def tags(self) -> list[tuple[int, int, int]]:
        """The tagged fields of a struct: tag, start and end position of the value."""
        count, self.pos = read_uvarint(self.buf, self.pos)
        self._count(count)
        fields: list[tuple[int, int, int]] = []
        tag = -1
        for _ in range(count):
            tag, start, self.pos = read_tag(self.buf, self.pos, self.end, tag)
            fields.append((tag, start, self.pos))
        return fields

    def finish(self) -> None:
        if self.pos != self.end:
            raise ProtocolError(f"malformed {self._name}: {self.end - self.pos} bytes left at its end")

    def _length(self) -> int:
        return self._compact_length() if self._flexible else self.int32()

    def _compact_length(self) -> int:
        length, self.pos = read_uvarint(self.buf, self.pos)
        return length - 1

    def _count(self, elements: int) -> None:
        self._elements_left -= elements
        if self._elements_left < 0:
            raise too_many_elements(self._name)

    def _skip(self, size: int) -> int:
        """Skip ``size`` bytes; returns their start position."""
        start = self.pos
        if size > self.end - start:
            raise length_error(f"field of {self._name}", size, self.end - start)
        self.pos = start + size
        return start
