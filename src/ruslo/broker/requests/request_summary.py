"""A request as plain values for the audit log, without secrets."""

from __future__ import annotations

from typing import Any

from ruslo.config.dynamic import dynamic_key
from ruslo.config.keys.group import GROUP
from ruslo.config.log_config import TOPIC
from ruslo.model.ids import uuid_to_text
from ruslo.model.secret import HIDDEN
from ruslo.protocol.message import Message, Struct

MAX_ITEMS = 100
MAX_TEXT = 1_000
"""Longer texts are shortened: clients choose names and tokens, some before they are authenticated."""
_SECRET_FIELDS = frozenset({"auth_bytes", "hmac", "salt", "salted_password"})
_UUID_BYTES = 16


def request_summary(request: Message) -> dict[str, Any]:
    return _fields(request)


def _fields(struct: Struct) -> dict[str, Any]:
    names = [name for name in struct.__slots__ if name != "unknown_tags"]
    shown = {name: _value(name, getattr(struct, name)) for name in names}
    if "value" in shown and isinstance(shown.get("name"), str) and _is_sensitive(shown["name"]):
        shown["value"] = HIDDEN
    return {name: value for name, value in shown.items() if value not in (None, [], "")}


def _value(name: str, value: Any) -> Any:
    if name in _SECRET_FIELDS:
        return HIDDEN
    if isinstance(value, Struct):
        return _fields(value)
    if isinstance(value, (list, tuple)):
        items = [_value(name, each) for each in value[:MAX_ITEMS]]
        return items if len(value) <= MAX_ITEMS else [*items, f"and {len(value) - MAX_ITEMS} more"]
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        if len(data) == _UUID_BYTES:
            return uuid_to_text(data) if any(data) else None
        return f"{len(data)} bytes"
    return shortened(value) if isinstance(value, str) else value


def shortened(text: str) -> str:
    """The text, or the beginning of a long one, for a log."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… ({len(text)} characters)"


def _is_sensitive(config_name: str) -> bool:
    """Whether the value of a config may be a secret: so is that of a config which is unknown here."""
    key = TOPIC.get(config_name) or GROUP.get(config_name) or dynamic_key(config_name)
    return key is None or key.sensitive
