"""Primitives of the wire format that generated and hand-written codecs share.

Every length is checked against the remaining bytes before memory is allocated, so a malicious frame costs no
more memory than a small multiple of its size.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Mapping

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError

STRING_BYTES_MAX = 32767
"""Longest string of the protocol in UTF-8 bytes, compact strings included."""

DECODE_ERRORS = (struct.error, IndexError, UnicodeDecodeError)
"""Exceptions of decoding past the end of a buffer, or a string that is not UTF-8."""

ENCODE_ERRORS = (struct.error, UnicodeEncodeError, AttributeError, TypeError, ValueError, OverflowError)
"""Exceptions of encoding a value that does not fit the type of its field."""

NO_ELEMENT_LIMIT = 1 << 62

_UVARINT_BYTES_MAX = 5
_UINT32_MAX = 0xFFFFFFFF


class _ElementBudget(threading.local):
    """Array elements and tagged fields that the message in decoding may still have, per thread."""

    left = NO_ELEMENT_LIMIT


_budget = _ElementBudget()


def set_element_limit(elements: int) -> None:
    """Limit the array elements of the message that this thread decodes next."""
    _budget.left = elements


def elements_left() -> int:
    return _budget.left


def take_elements(count: int) -> None:
    """Count the elements of an array before they are decoded."""
    left = _budget.left - count
    if left < 0:
        raise ProtocolError(
            f"too many array elements: {-left} over the limit of a request; send several smaller requests"
        )
    _budget.left = left


def uvarint_tail(buf: ReadBuffer, pos: int, first: int) -> tuple[int, int]:
    """Read the rest of an unsigned varint of at most 32 bits whose first byte was above 127."""
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
    """The error for an invalid length of a string, bytes or array."""
    if length < 0:
        return ProtocolError(f"malformed {field}: null, but the field must have a value in this version")
    return ProtocolError(f"malformed {field}: length {length} exceeds the {remaining} remaining bytes")


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
    """Read an array of uuids whose length was checked."""
    return [bytes(buf[at : at + 16]) for at in range(pos, pos + 16 * count, 16)]


def read_tag(buf: ReadBuffer, pos: int, limit: int, previous: int) -> tuple[int, int, int]:
    """Read tag and size of a tagged field: tag, start and end position of the value."""
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
    """Read the tagged fields of a struct without known tags; ``pos`` is after the first byte of the count."""
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
    """Write tagged fields in ascending order."""
    tags = dict(known)
    for tag, value in (unknown or {}).items():
        if tag in tags or not 0 <= tag <= _UINT32_MAX:
            raise ProtocolError(
                f"cannot encode unknown tag {tag}: it is a known field, or not a 32-bit number"
            )
        tags[tag] = value
    write_uvarint(out, len(tags))
    for tag in sorted(tags):
        write_uvarint(out, tag)
        write_uvarint(out, len(tags[tag]))
        out += tags[tag]
