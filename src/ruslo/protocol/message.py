"""The base classes of generated messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final, Self

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError
from ruslo.protocol.primitives import (
    DECODE_ERRORS,
    ENCODE_ERRORS,
    NO_ELEMENT_LIMIT,
    elements_left,
    set_element_limit,
)

UNSET: Final[Any] = object()
"""Stands for a default that is a list or struct, which must be created for every object."""


class Struct(ABC):
    """A group of fields: a message, or a struct in one."""

    __slots__ = ("unknown_tags",)

    unknown_tags: dict[int, bytes] | None
    """Unknown tagged fields by tag; they are written as they were read."""

    @classmethod
    @abstractmethod
    def _read(cls, buf: ReadBuffer, pos: int, limit: int, version: int) -> tuple[Self, int]: ...

    @abstractmethod
    def _write(self, out: bytearray, version: int) -> None: ...

    def __eq__(self, other: object) -> bool:
        if self.__class__ is not other.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__) and (
            self.unknown_tags or None
        ) == (getattr(other, "unknown_tags", None) or None)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = [f"{name}={getattr(self, name)!r}" for name in self.__slots__]
        if self.unknown_tags:
            parts.append(f"unknown_tags={self.unknown_tags!r}")
        return f"{type(self).__name__}({', '.join(parts)})"


class Message(Struct):
    """A whole message. Malformed bytes of a peer raise ProtocolError."""

    __slots__ = ()

    API_KEY: ClassVar[int] = -1
    """API key, or the record type of metadata and coordinator records; -1 for other messages."""
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]
    """Latest version, an unstable one included; below MIN_VERSION for removed APIs."""
    FLEXIBLE_FROM: ClassVar[int]
    """First version with compact types and tagged fields; 32767 if no version has them."""

    @classmethod
    def read(cls, buf: ReadBuffer, pos: int, version: int) -> tuple[Self, int]:
        """Decode the message at ``pos``: the message, and the position after it."""
        if not cls.MIN_VERSION <= version <= cls.MAX_VERSION:
            raise cls._version_error(version)
        try:
            return cls._read(buf, pos, len(buf), version)
        except DECODE_ERRORS as error:
            raise ProtocolError(f"malformed {cls.__name__} version {version}: {error}") from error

    @classmethod
    def read_bounded(cls, buf: ReadBuffer, version: int, max_elements: int) -> tuple[Self, int]:
        """Decode a request with at most ``max_elements`` array elements: the request, and how many it has.

        Bytes after the request are ignored.
        """
        set_element_limit(max_elements)
        try:
            message, _ = cls.read(buf, 0, version)
            return message, max_elements - elements_left()
        finally:
            set_element_limit(NO_ELEMENT_LIMIT)

    @classmethod
    def from_bytes(cls, buf: ReadBuffer, version: int) -> Self:
        """Decode a message that fills the whole buffer."""
        message, end = cls.read(buf, 0, version)
        if end != len(buf):
            raise ProtocolError(
                f"malformed {cls.__name__} version {version}: {len(buf) - end} bytes too many"
            )
        return message

    def write(self, out: bytearray, version: int) -> None:
        """Append the encoded message; on failure ``out`` is unchanged."""
        if not self.MIN_VERSION <= version <= self.MAX_VERSION:
            raise self._version_error(version)
        start = len(out)
        try:
            self._write(out, version)
        except ProtocolError:
            del out[start:]
            raise
        except ENCODE_ERRORS as error:
            del out[start:]
            raise ProtocolError(f"cannot encode {type(self).__name__} version {version}: {error}") from error

    def to_bytes(self, version: int) -> bytes:
        out = bytearray()
        self.write(out, version)
        return bytes(out)

    @classmethod
    def _version_error(cls, version: int) -> ProtocolError:
        if cls.MAX_VERSION < cls.MIN_VERSION:
            return ProtocolError(f"{cls.__name__} has no version: the API was removed")
        return ProtocolError(
            f"{cls.__name__} has no version {version}; versions {cls.MIN_VERSION} to {cls.MAX_VERSION} exist"
        )
