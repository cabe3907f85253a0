"""Decodes JSON with a Spark schema, by the rules of ``from_json``, except that a type mismatch is an error.

Missing fields are null, and fields that are not in the schema are ignored. Text never becomes a number; any
value becomes text as its JSON.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import datetime
import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Final, TypeAlias

import msgspec
import pyarrow as pa

from ruslo.pipeline.decode.payload import Decoded, PayloadError, decode_each

Convert: TypeAlias = Callable[[object], object]
"""Converts a JSON value other than null to a value for Arrow; raises PayloadError."""

_NOT_NUMBERS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_as_json: Final = msgspec.json.Encoder(decimal_format="number").encode
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class JsonDecoder:
    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._convert = _converter(kind)
        # Parsing decimals as floats would lose digits.
        self._parse = (
            msgspec.json.Decoder(float_hook=Decimal).decode if _holds_decimal(kind) else msgspec.json.decode
        )

    def decode(self, column: pa.Array) -> Decoded:
        return decode_each(column, self._decode_one, self._kind)

    def _decode_one(self, content: bytes) -> object:
        try:
            value = self._parse(content)
        except msgspec.DecodeError as error:
            raise PayloadError(f"not JSON: {error}") from error
        return None if value is None else self._convert(value)


def _holds_decimal(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_holds_decimal(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_decimal(kind))


def _converter(kind: pa.DataType) -> Convert:
    types = pa.types
    if types.is_integer(kind):
        return _integer(kind)
    if types.is_floating(kind):
        return _float
    if types.is_decimal(kind):
        return _decimal(kind)
    if types.is_boolean(kind):
        return _boolean
    if types.is_string(kind):
        return _text
    if types.is_binary(kind):
        return _binary
    if types.is_date(kind):
        return _date
    if types.is_timestamp(kind):
        return _timestamp(kind)
    if types.is_struct(kind):
        return _struct(kind)
    if types.is_map(kind):
        return _map(kind)
    if types.is_list(kind):
        return _list(kind)
    raise PayloadError(f"JSON cannot be converted to {kind}")


def _unfit(value: object, wanted: str) -> PayloadError:
    shown = _as_json(value).decode()
    return PayloadError(f"{wanted} was expected, not {shown if len(shown) <= 60 else shown[:57] + '...'}")


def _integer(kind: pa.DataType) -> Convert:
    limit = 1 << (kind.bit_width - 1)

    def convert(value: object) -> int:
        if type(value) is not int or not -limit <= value < limit:
            raise _unfit(value, f"a whole number of {kind.bit_width} bits")
        return value

    return convert


def _float(value: object) -> float:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and value in _NOT_NUMBERS:
        return _NOT_NUMBERS[value]
    raise _unfit(value, "a number")


def _decimal(kind: pa.DataType) -> Convert:
    step = Decimal(1).scaleb(-kind.scale)

    def convert(value: object) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise _unfit(value, "a number")
        number = Decimal(value)
        if not number.is_finite() or number.adjusted() + kind.scale >= kind.precision:
            raise _unfit(value, f"a number of {kind.precision} digits")
        rounded = number.quantize(step, rounding=ROUND_HALF_UP)
        if len(rounded.as_tuple().digits) > kind.precision:
            raise _unfit(value, f"a number of {kind.precision} digits")
        return rounded

    return convert


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise _unfit(value, "true or false")


def _text(value: object) -> str:
    return value if isinstance(value, str) else _as_json(value).decode()


def _binary(value: object) -> bytes:
    if isinstance(value, str):
        with contextlib.suppress(binascii.Error):
            return base64.b64decode(value, validate=True)
    raise _unfit(value, "base64")


def _date(value: object) -> datetime.date:
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return datetime.date.fromisoformat(value)
    raise _unfit(value, "a date such as 2026-01-31")


def _timestamp(kind: pa.DataType) -> Convert:
    def convert(value: object) -> datetime.datetime:
        try:
            if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
                moment = _EPOCH + datetime.timedelta(seconds=float(value))
            elif isinstance(value, str):
                moment = datetime.datetime.fromisoformat(value)
            else:
                raise _unfit(value, "a time")
        except (ValueError, OverflowError):
            raise _unfit(value, "a time such as 2026-01-31T12:00:00Z, or seconds since 1970,") from None
        if kind.tz is None:
            return moment.replace(tzinfo=None)
        return moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment

    return convert


def _struct(kind: pa.DataType) -> Convert:
    fields = [(kind.field(at).name, _converter(kind.field(at).type)) for at in range(kind.num_fields)]

    def convert(value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            raise _unfit(value, "an object")
        found: dict[str, object] = {}
        for name, convert_field in fields:
            content = value.get(name)
            if content is not None:
                try:
                    found[name] = convert_field(content)
                except PayloadError as error:
                    raise PayloadError(f"{name}: {error}") from None
        return found

    return convert


def _list(kind: pa.DataType) -> Convert:
    convert_item = _converter(kind.value_type)

    def convert(value: object) -> list[object]:
        if not isinstance(value, list):
            raise _unfit(value, "an array")
        return [None if item is None else convert_item(item) for item in value]

    return convert


def _map(kind: pa.DataType) -> Convert:
    convert_item = _converter(kind.item_type)

    def convert(value: object) -> list[tuple[str, object]]:
        if not isinstance(value, dict):
            raise _unfit(value, "an object")
        return [(name, None if item is None else convert_item(item)) for name, item in value.items()]

    return convert
