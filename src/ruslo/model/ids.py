"""Kafka's uuids: 16 bytes in memory and on the wire, 22 characters of unpadded base64url in text."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from typing import TypeAlias

Uuid: TypeAlias = bytes

ZERO_UUID: Uuid = bytes(16)
METADATA_TOPIC_ID: Uuid = bytes(15) + b"\x01"
"""Topic id of ``__cluster_metadata``; as a directory id the same value means "unassigned"."""

UNASSIGNED_DIR: Uuid = bytes(15) + b"\x01"
LOST_DIR: Uuid = bytes(15) + b"\x02"
MIGRATING_DIR: Uuid = ZERO_UUID
RESERVED_DIRS = frozenset({UNASSIGNED_DIR, LOST_DIR, MIGRATING_DIR})
"""Directory ids that are not ids of directories."""

_RESERVED_BELOW = 100


def random_uuid(random_bytes: Callable[[int], bytes] = os.urandom) -> Uuid:
    """A random version 4 uuid that is not reserved and whose text does not start with a dash."""
    while True:
        raw = bytearray(random_bytes(16))
        raw[6] = (raw[6] & 0x0F) | 0x40
        raw[8] = (raw[8] & 0x3F) | 0x80
        value = bytes(raw)
        # A command line takes text with a leading dash for an option.
        if not is_reserved(value) and not uuid_to_text(value).startswith("-"):
            return value


def is_reserved(value: Uuid) -> bool:
    """Whether Kafka reserves this uuid."""
    return int.from_bytes(value, "big") < _RESERVED_BELOW


def uuid_to_text(value: Uuid) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def uuid_from_text(text: str) -> Uuid:
    """Parse the 22-character form; raises ValueError on anything else."""
    if len(text) != 22:
        raise ValueError(f"a uuid has 22 characters of base64url, got {text!r}")
    value = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    if uuid_to_text(value) != text:
        raise ValueError(f"not a canonical base64url uuid: {text!r}")
    return value
