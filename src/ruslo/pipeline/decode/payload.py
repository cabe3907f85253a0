"""What the bytes of keys and values mean: a decoder turns a column of them into a column of Spark's types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import pyarrow as pa


class Decoded(NamedTuple):
    column: pa.Array
    """As long as the one it was made from; null where the bytes were null or could not be decoded."""
    errors: Mapping[int, str]
    """Why, by row."""


class PayloadDecoder(Protocol):
    def decode(self, column: pa.Array) -> Decoded: ...


class PayloadError(ValueError):
    """Bytes that are not what the format and the schema say; the message says where and why."""


class StringDecoder:
    """UTF-8."""

    def decode(self, column: pa.Array) -> Decoded:
        try:
            return Decoded(column.cast(pa.string()), {})
        except pa.ArrowInvalid:
            return decode_each(column, bytes.decode, pa.string())


def decode_each(column: pa.Array, decode: Callable[[bytes], object], kind: pa.DataType) -> Decoded:
    """Decode value by value; what fails is named, the rest goes on."""
    values: list[object] = []
    errors: dict[int, str] = {}
    for row, content in enumerate(column.to_pylist()):
        value = None
        if content is not None:
            try:
                value = decode(content)
            except Exception as error:
                # Decoders of others raise what they like for bytes that they do not understand.
                errors[row] = _reason(error)
        values.append(value)
    try:
        return Decoded(pa.array(values, kind), errors)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return _convert_each(values, errors, kind)


def _convert_each(values: list[object], errors: dict[int, str], kind: pa.DataType) -> Decoded:
    """A value that decodes but does not fit Arrow's type spoils the whole column, so find it."""
    for row, value in enumerate(values):
        try:
            pa.array([value], kind)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            errors[row] = _reason(error)
            values[row] = None
    return Decoded(pa.array(values, kind), errors)


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, PayloadError) else f"{type(error).__name__}: {error}"
