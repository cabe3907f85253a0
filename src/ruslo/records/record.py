"""One record: an event as it lies inside a batch."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Header: TypeAlias = tuple[str, bytes | None]

HEADER_KEY_ERRORS = "surrogateescape"
"""Kafka never looks at the bytes of a header's key, so ones that are not UTF-8 are in logs and must survive a
rewrite: they become lone surrogates in the text and the same bytes again when written."""


class Record(NamedTuple):
    """Key and value are None where Kafka has null; the timestamp is in milliseconds, -1 for none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
