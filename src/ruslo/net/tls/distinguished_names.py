"""Distinguished names of certificates as Java writes them (RFC 2253): ``CN=alice,OU=ops,O=Example``."""

from __future__ import annotations

import re
from collections.abc import Iterator

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ENCODINGS = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
"""The encodings of DER's strings, by tag."""
_SPECIAL = re.compile(r'([,=+"\\<>;#])')
_LONG_LENGTH = 0x80


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER."""
    from cryptography.x509 import load_der_x509_certificate

    return format_name(load_der_x509_certificate(certificate).subject.public_bytes())


def format_name(name: bytes) -> str:
    """A Name in DER: a sequence of sets of attributes, each with an object id and a value."""
    (_, content, _), *_ = _elements(name)
    parts = [
        "+".join(_format_attribute(attribute) for _, attribute, _ in _elements(part))
        for _, part, _ in _elements(content)
    ]
    return ",".join(reversed(parts))


def _format_attribute(attribute: bytes) -> str:
    (_, oid, _), (tag, value, encoded) = _elements(attribute)
    keyword = _KEYWORDS.get(_dotted(oid))
    if keyword is None or tag not in _ENCODINGS:
        return f"{keyword or _dotted(oid)}=#{encoded.hex()}"
    return f"{keyword}={_escape(value.decode(_ENCODINGS[tag], 'replace'))}"


def _escape(value: str) -> str:
    escaped = _SPECIAL.sub(r"\\\1", value)
    if value.startswith(" "):
        escaped = "\\" + escaped
    if len(value) > 1 and value.endswith(" "):
        escaped = escaped[:-1] + "\\ "
    return escaped


def _elements(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """The elements of a DER sequence: tag, content, and the whole element."""
    at = 0
    while at < len(data):
        begin, tag, size = at, data[at], data[at + 1]
        at += 2
        if size >= _LONG_LENGTH:
            octets = size - _LONG_LENGTH
            size = int.from_bytes(data[at : at + octets], "big")
            at += octets
        yield tag, data[at : at + size], data[begin : at + size]
        at += size


def _dotted(oid: bytes) -> str:
    numbers: list[int] = []
    value = 0
    for octet in oid:
        value = value << 7 | octet & 0x7F
        if not octet & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
