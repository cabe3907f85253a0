"""The pieces of the wire format that generated and hand-written codecs share.

Every length is checked against the bytes that are left before anything is allocated for it, so a hostile
frame costs no more memory than a small multiple of its own size.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Mapping

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError

STRING_BYTES_MAX = 32767
"""Longest string of the protocol, in UTF-8 bytes; compact strings obey it too."""

DECODE_ERRORS = (struct.error, IndexError, UnicodeDecodeError)
"""What straight-line decoding runs into at the end of a buffer or in a string that is not UTF-8."""

ENCODE_ERRORS = (struct.error, UnicodeEncodeError, AttributeError, TypeError, ValueError, OverflowError)
"""What encoding runs into when a field holds a value its type cannot carry."""

NO_ELEMENT_LIMIT = 1 << 62

_UVARINT_BYTES_MAX = 5
_UINT32_MAX = 0xFFFFFFFF


class _ElementBudget(threading.local):
    """Array elements and tagged fields that the message being decoded in this thread may still have."""

    left = NO_ELEMENT_LIMIT


_budget = _ElementBudget()


def set_element_limit(elements: int) -> None:
    """Limit the array elements of the message that this thread decodes next, over all its arrays."""
    _budget.left = elements


def elements_left() -> int:
    return _budget.left


def take_elements(count: int) -> None:
    """Count the elements of an array before the first one is decoded."""
    left = _budget.left - count
    if left < 0:
        raise ProtocolError(
            f"too many array elements: {-left} more than one request may have; send several smaller requests"
        )
    _budget.left = left


def uvarint_tail(buf: ReadBuffer, pos: int, first: int) -> tuple[int, int]:
    """Finish an unsigned varint whose first byte (already read, above 127) announced more bytes.

    An unsigned varint holds 32 bits, hence at most five bytes.
    """
    value = first & 0x7F
    shift = 7
    while True:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift == 7 * _UVARINT_BYTES_MAX:
            raise ProtocolError("malformed varint: more than five bytes for a 32-bit number")
    if value > _UINT32_MAX:
        raise ProtocolError(f"malformed varint: {value} does not fit 32 bits")
    return value, pos


def read_uvarint(buf: ReadBuffer, pos: int) -> tuple[int, int]:
    value = buf[pos]
    pos += 1
    if value > 127:
        return uvarint_tail(buf, pos, value)
    return value, pos


def write_uvarint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def length_error(field: str, length: int, remaining: int) -> ProtocolError:
    """Why the length in front of a string, bytes or array cannot be true."""
    if length < 0:
        return ProtocolError(f"malformed {field}: null, but the field must have a value in this version")
    return ProtocolError(
        f"malformed {field}: length {length} does not fit the {remaining} bytes that are left"
    )


def null_error(field: str, version: int) -> ProtocolError:
    return ProtocolError(f"cannot encode {field}: it must not be null in version {version}")


def size_error(field: str, size: int, limit: int) -> ProtocolError:
    return ProtocolError(f"cannot encode {field}: {size} bytes, the protocol allows {limit}")


def uuid_error(field: str, value: bytes) -> ProtocolError:
    return ProtocolError(f"cannot encode {field}: a uuid has 16 bytes, got {len(value)}")


def absent_error(field: str, version: int) -> ProtocolError:
    return ProtocolError(
        f"cannot encode {field}: version {version} has no such field, and its value is not the default; "
        "reset the field or use a newer version"
    )


def tag_size_error(field: str, declared: int, taken: int) -> ProtocolError:
    return ProtocolError(
        f"malformed tagged field {field}: declared {declared} bytes, its value takes {taken}"
    )


def tag_version_error(owner: str, tag: int, version: int) -> ProtocolError:
    return ProtocolError(f"malformed {owner}: tag {tag} is not valid in version {version}")


def read_uuids(buf: ReadBuffer, pos: int, count: int) -> list[bytes]:
    """Read an array of uuids whose length is known to fit."""
    return [bytes(buf[at : at + 16]) for at in range(pos, pos + 16 * count, 16)]


def read_tag(buf: ReadBuffer, pos: int, limit: int, previous: int) -> tuple[int, int, int]:
    """Read tag and size of a tagged field: tag, first byte of the value, byte after the value."""
    tag, pos = read_uvarint(buf, pos)
    size, pos = read_uvarint(buf, pos)
    if tag <= previous:
        raise ProtocolError(f"malformed tagged fields: tag {tag} after tag {previous}; tags must ascend")
    if size > limit - pos:
        raise length_error(f"tagged field {tag}", size, limit - pos)
    return tag, pos, pos + size


def read_unknown_tags(
    buf: ReadBuffer, pos: int, limit: int, first_count_byte: int
) -> tuple[dict[int, bytes], int]:
    """Read the tagged fields of a struct that knows none; ``pos`` is behind the first byte of their count."""
    count = first_count_byte
    if count > 127:
        count, pos = uvarint_tail(buf, pos, count)
    take_elements(count)
    tags: dict[int, bytes] = {}
    tag = -1
    for _ in range(count):
        tag, pos, end = read_tag(buf, pos, limit, tag)
        tags[tag] = bytes(buf[pos:end])
        pos = end
    return tags, pos


def write_tags(
    out: bytearray, known: Mapping[int, bytes | bytearray], unknown: Mapping[int, bytes] | None
) -> None:
    """Write tagged fields in the order of their tags."""
    tags = dict(known)
    for tag, value in (unknown or {}).items():
        if tag in tags or not 0 <= tag <= _UINT32_MAX:
            raise ProtocolError(f"cannot encode unknown tag {tag}: it is a known field, or no 32-bit number")
        tags[tag] = value
    write_uvarint(out, len(tags))
    for tag in sorted(tags):
        write_uvarint(out, tag)
        write_uvarint(out, len(tags[tag]))
        out += tags[tag]
