"""OTLP metrics: the protobuf message ``MetricsData`` that clients push (KIP-714), decoded to data points.

Only what an exporter needs is decoded: gauges, sums and histograms. Exponential histograms, summaries,
exemplars and unknown fields are skipped. Everything is bounded: the fields of a payload, its data points,
the attributes of each, and the length of names and values. The decoder is a generator that yields after small
steps, because a payload of a megabyte takes a while.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from itertools import pairwise
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

from ruslo.model.errors import ProtocolError

MAX_FIELDS: Final = 300_000
MAX_POINTS: Final = 10_000
MAX_ATTRIBUTES: Final = 32
MAX_BUCKETS: Final = 256
MAX_TEXT_CHARS: Final = 256
"""Longer names and values are truncated."""

_MAX_LEAF_FIELDS: Final = 1_000
"""Fields of a data point or of a resource, with those of its attributes: they are decoded in one step."""
_MAX_VARINT_BYTES: Final = 10
_MAX_CHAR_BYTES: Final = 4

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DOUBLE: Final = Struct("<d")
_SFIXED64: Final = Struct("<q")
_FIXED64_WIDTH: Final = 8
_FIXED32_WIDTH: Final = 4
_CUMULATIVE: Final = 2

Attributes: TypeAlias = Mapping[str, str]


class NumberPoint(NamedTuple):
    """A data point of a gauge or a sum."""

    name: str
    attributes: Attributes
    """Of the point and of its resource."""
    value: float
    is_counter: bool
    """Whether the point belongs to a monotonic sum."""
    is_delta: bool
    """Whether the value is the change since the client's last push."""


class HistogramPoint(NamedTuple):
    name: str
    attributes: Attributes
    bounds: tuple[float, ...]
    """Inclusive upper bounds of all buckets but the last one, which has none."""
    counts: tuple[int, ...]
    total: float
    """The sum of the observations."""
    is_delta: bool


Point: TypeAlias = NumberPoint | HistogramPoint


class _Field(NamedTuple):
    number: int
    wire_type: int
    value: int
    """The number of a varint; otherwise the position of the content."""
    end: int

    def content(self) -> tuple[int, int]:
        """The positions of a nested message, a text or packed numbers."""
        if self.wire_type != _BYTES:
            raise ProtocolError(f"field {self.number} has wire type {self.wire_type}; it must be {_BYTES}")
        return self.value, self.end

    def varint(self) -> int:
        if self.wire_type != _VARINT:
            raise ProtocolError(f"field {self.number} has wire type {self.wire_type}; it must be {_VARINT}")
        return self.value

    def fixed64(self) -> int:
        """The position of the number."""
        if self.wire_type != _FIXED64:
            raise ProtocolError(f"field {self.number} has wire type {self.wire_type}; it must be {_FIXED64}")
        return self.value


def decode_metrics(data: bytes) -> Generator[None, None, list[Point]]:
    """Decode a payload in steps; raises ProtocolError if it is malformed or exceeds a limit."""
    decoder = _Decoder(data)
    yield from decoder.decode()
    return decoder.points


class _Decoder:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._fields_left = MAX_FIELDS
        self._leaf_fields_left = _MAX_LEAF_FIELDS
        self.points: list[Point] = []

    def decode(self) -> Iterator[None]:
        for field in self._fields(0, len(self._data)):
            if field.number == 1:
                yield from self._resource_metrics(*field.content())
            yield

    def _resource_metrics(self, pos: int, end: int) -> Iterator[None]:
        attributes: dict[str, str] = {}
        scopes: list[tuple[int, int]] = []
        # The resource may follow the metrics that it describes.
        for field in self._fields(pos, end):
            if field.number == 1:
                self._leaf_fields_left = _MAX_LEAF_FIELDS
                for each in self._leaf_fields(*field.content()):
                    if each.number == 1:
                        self._add_attribute(attributes, *each.content())
            elif field.number == 2:
                _check_count(len(scopes))
                scopes.append(field.content())
            yield
        for scope in scopes:
            for field in self._fields(*scope):
                if field.number == 2:
                    yield from self._metric(*field.content(), attributes)
                yield

    def _metric(self, pos: int, end: int, resource: Attributes) -> Iterator[None]:
        name = ""
        data: _Field | None = None
        for field in self._fields(pos, end):
            if field.number == 1:
                name = self._text(*field.content())
            elif field.number in (5, 7, 9):
                # They exclude each other, and the last one counts.
                data = field
            yield
        if data is not None:
            is_histogram = data.number == 9
            yield from self._points(name, *data.content(), resource, is_histogram=is_histogram)

    def _points(
        self, name: str, pos: int, end: int, resource: Attributes, *, is_histogram: bool
    ) -> Iterator[None]:
        """The points of a gauge, a sum or a histogram. A gauge has neither a temporality nor a monotony."""
        is_delta = is_counter = False
        points: list[tuple[int, int]] = []
        for field in self._fields(pos, end):
            if field.number == 1:
                _check_count(len(self.points) + len(points))
                points.append(field.content())
            elif field.number == 2:
                is_delta = field.varint() != _CUMULATIVE
            elif field.number == 3:
                is_counter = bool(field.varint())
            yield
        for start, stop in points:
            self._leaf_fields_left = _MAX_LEAF_FIELDS
            point: Point | None
            if is_histogram:
                point = self._histogram_point(name, start, stop, resource, is_delta)
            else:
                point = self._number_point(name, start, stop, resource, is_counter, is_delta)
            if point is not None:
                self.points.append(point)
            yield

    def _number_point(
        self, name: str, pos: int, end: int, resource: Attributes, is_counter: bool, is_delta: bool
    ) -> NumberPoint | None:
        """None for a point without a value."""
        value: float | None = None
        attributes = dict(resource)
        for field in self._leaf_fields(pos, end):
            if field.number == 4:
                value = _DOUBLE.unpack_from(self._data, field.fixed64())[0]
            elif field.number == 6:
                value = _SFIXED64.unpack_from(self._data, field.fixed64())[0]
            elif field.number == 7:
                self._add_attribute(attributes, *field.content())
        return None if value is None else NumberPoint(name, attributes, value, is_counter, is_delta)

    def _histogram_point(
        self, name: str, pos: int, end: int, resource: Attributes, is_delta: bool
    ) -> HistogramPoint:
        attributes = dict(resource)
        total = 0.0
        counts: list[int] = []
        bounds: list[float] = []
        for field in self._leaf_fields(pos, end):
            if field.number == 5:
                (total,) = _DOUBLE.unpack_from(self._data, field.fixed64())
            elif field.number == 6:
                counts += self._fixed64s(field, _SFIXED64, len(counts))
            elif field.number == 7:
                bounds += self._fixed64s(field, _DOUBLE, len(bounds))
            elif field.number == 9:
                self._add_attribute(attributes, *field.content())
        if counts and len(counts) != len(bounds) + 1:
            raise ProtocolError(f"a histogram has {len(counts)} buckets but {len(bounds)} bounds")
        if any(count < 0 for count in counts) or any(not a < b for a, b in pairwise(bounds)):
            raise ProtocolError("a histogram has a negative count, or bounds that do not increase")
        return HistogramPoint(name, attributes, tuple(bounds), tuple(counts), total, is_delta)

    def _fixed64s(self, field: _Field, number: Struct, known: int) -> list[Any]:
        """Numbers of 8 bytes, packed or one by one."""
        if field.wire_type == _FIXED64:
            pos, end = field.value, field.value + _FIXED64_WIDTH
        else:
            pos, end = field.content()
        count, rest = divmod(end - pos, _FIXED64_WIDTH)
        if rest:
            raise ProtocolError(f"field {field.number} has {end - pos} bytes, not a multiple of 8")
        if known + count > MAX_BUCKETS:
            raise ProtocolError(f"a histogram has more than {MAX_BUCKETS} buckets")
        return [each for (each,) in number.iter_unpack(self._data[pos:end])]

    def _add_attribute(self, attributes: dict[str, str], pos: int, end: int) -> None:
        """Add a text, a bool or a number; other kinds of values are skipped."""
        key, text = "", None
        for field in self._leaf_fields(pos, end):
            if field.number == 1:
                key = self._text(*field.content())
            elif field.number == 2:
                text = self._attribute_value(*field.content())
        if key and text is not None:
            if key not in attributes and len(attributes) == MAX_ATTRIBUTES:
                raise ProtocolError(f"a data point has more than {MAX_ATTRIBUTES} attributes")
            attributes[key] = text

    def _attribute_value(self, pos: int, end: int) -> str | None:
        text: str | None = None
        for field in self._leaf_fields(pos, end):
            if field.number == 1:
                text = self._text(*field.content())
            elif field.number == 2:
                text = "true" if field.varint() else "false"
            elif field.number == 3:
                number = field.varint()
                text = str(number - (1 << 64) if number >> 63 else number)
            elif field.number == 4:
                text = repr(_DOUBLE.unpack_from(self._data, field.fixed64())[0])
        return text

    def _text(self, pos: int, end: int) -> str:
        start = self._data[pos : min(end, pos + MAX_TEXT_CHARS * _MAX_CHAR_BYTES)]
        return start.decode("utf-8", "replace")[:MAX_TEXT_CHARS]

    def _leaf_fields(self, pos: int, end: int) -> Iterator[_Field]:
        for field in self._fields(pos, end):
            self._leaf_fields_left -= 1
            if self._leaf_fields_left < 0:
                raise ProtocolError(f"a data point or resource has more than {_MAX_LEAF_FIELDS} fields")
            yield field

    def _fields(self, pos: int, end: int) -> Iterator[_Field]:
        """The fields of a message, checked to lie within it."""
        while pos < end:
            self._fields_left -= 1
            if self._fields_left < 0:
                raise ProtocolError(f"the metrics have more than {MAX_FIELDS} fields")
            tag, pos = self._varint(pos, end)
            number, wire_type = tag >> 3, tag & 7
            if not number:
                raise ProtocolError("a field has the number 0")
            if wire_type == _VARINT:
                value, pos = self._varint(pos, end)
                yield _Field(number, wire_type, value, pos)
                continue
            if wire_type == _BYTES:
                length, pos = self._varint(pos, end)
            elif wire_type == _FIXED64:
                length = _FIXED64_WIDTH
            elif wire_type == _FIXED32:
                length = _FIXED32_WIDTH
            else:
                raise ProtocolError(f"field {number} has the unsupported wire type {wire_type}")
            if length > end - pos:
                raise ProtocolError(f"field {number} has {length} bytes, {end - pos} are left")
            yield _Field(number, wire_type, pos, pos + length)
            pos += length

    def _varint(self, pos: int, end: int) -> tuple[int, int]:
        value = shift = 0
        for at in range(pos, min(end, pos + _MAX_VARINT_BYTES)):
            byte = self._data[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF, at + 1
            shift += 7
        raise ProtocolError("a number is truncated or longer than 10 bytes")


def _check_count(known: int) -> None:
    if known >= MAX_POINTS:
        raise ProtocolError(f"the metrics have more than {MAX_POINTS} data points or scopes")
