"""Decoders of keys and values: from a column of bytes to a column of a Spark type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import pyarrow as pa


class Decoded(NamedTuple):
    column: pa.Array
    """Has a row for each input row; null where the bytes were null or could not be decoded."""
    errors: Mapping[int, str]
    """The reason for each row that could not be decoded."""


class PayloadDecoder(Protocol):
    def decode(self, column: pa.Array) -> Decoded: ...


class PayloadError(ValueError):
    """Bytes do not match the format and schema; the message names the field and the reason."""


class StringDecoder:
    """Decodes UTF-8."""

    def decode(self, column: pa.Array) -> Decoded:
        try:
            return Decoded(column.cast(pa.string()), {})
        except pa.ArrowInvalid:
            return decode_each(column, bytes.decode, pa.string())


def decode_each(column: pa.Array, decode: Callable[[bytes], object], kind: pa.DataType) -> Decoded:
    """Decode value by value and collect the errors."""
    values: list[object] = []
    errors: dict[int, str] = {}
    for row, content in enumerate(column.to_pylist()):
        value = None
        if content is not None:
            try:
                value = decode(content)
            except Exception as error:
                # Libraries raise arbitrary exceptions for invalid bytes.
                errors[row] = _reason(error)
        values.append(value)
    try:
        return Decoded(pa.array(values, kind), errors)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return _convert_each(values, errors, kind)


def _convert_each(values: list[object], errors: dict[int, str], kind: pa.DataType) -> Decoded:
    """Find the values that decode but do not fit Arrow's type: they fail the whole column."""
    for row, value in enumerate(values):
        try:
            pa.array([value], kind)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            errors[row] = _reason(error)
            values[row] = None
    return Decoded(pa.array(values, kind), errors)


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, PayloadError) else f"{type(error).__name__}: {error}"
