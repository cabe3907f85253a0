"""One record of a batch."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Header: TypeAlias = tuple[str, bytes | None]

HEADER_KEY_ERRORS = "surrogateescape"
"""Kafka does not check that header keys are UTF-8. Other bytes must survive a rewrite: they become lone
surrogates in the text, and the same bytes again when written."""


class Record(NamedTuple):
    """Key and value are None for null; the timestamp is in milliseconds, -1 without one."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
