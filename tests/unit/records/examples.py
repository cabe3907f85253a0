"""Records and batches that several test files share."""

from __future__ import annotations

import struct

from hypothesis import strategies as st

from ruslo.records import batch as layout
from ruslo.records.builder import build_batch, set_crc
from ruslo.records.record import Record

NOW = 1_700_000_000_000

RECORDS = [
    Record(0, NOW, b"key", b"value"),
    Record(1, NOW + 250, None, b"no key", (("trace", b"\x01\x02"), ("null", None))),
    Record(2, NOW - 3, b"gone", None),
    Record(3, NOW + 90, b"", b"", (("", b""),)),
]

KEYED = [Record(index, NOW + index, b"k%d" % index, b"v" * index) for index in range(5)]

_contents = st.none() | st.binary(max_size=200)
_headers = st.lists(st.tuples(st.text(max_size=20), _contents), max_size=3).map(tuple)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    timestamps = draw(st.lists(st.integers(-1, 2**61), min_size=1, max_size=12))
    return [
        Record(index, timestamp, draw(_contents), draw(_contents), draw(_headers))
        for index, timestamp in enumerate(timestamps)
    ]


def changed(batch: bytearray, field_format: str, at: int, value: int) -> bytearray:
    """The batch with one header field overwritten and a correct CRC."""
    struct.pack_into(field_format, batch, at, value)
    set_crc(batch)
    return batch


def with_payload(payload: bytes, *, count: int, attributes: int = 0) -> bytearray:
    """A batch with a valid header and the given record bytes."""
    batch = build_batch([Record(index, NOW, b"k", b"v") for index in range(count)])[: layout.HEADER_SIZE]
    batch += payload
    struct.pack_into(">i", batch, layout.LENGTH_AT, len(batch) - layout.LENGTH_OVERHEAD)
    return changed(batch, ">h", layout.ATTRIBUTES_AT, attributes)


def payload_of(records: list[Record]) -> bytes:
    return bytes(build_batch(records)[layout.HEADER_SIZE :])
