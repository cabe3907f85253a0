"""A secret: a password, a private key, a token. It prints as ``***``, so no log line or message shows it."""

from __future__ import annotations

import hmac
from typing import Final

HIDDEN: Final = "***"


class Secret:
    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the secret itself. Pass it on at once; do not keep it in a variable that may be printed."""
        return self._value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        # In constant time: how long it takes must not tell how much of a guess is right.
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __str__(self) -> str:
        return HIDDEN

    def __repr__(self) -> str:
        return HIDDEN

    def __format__(self, format_spec: str) -> str:
        return HIDDEN
