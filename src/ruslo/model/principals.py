"""Principals: who a connection acts for, such as ``User:alice``."""

from __future__ import annotations

from typing import NamedTuple

USER = "User"


class Principal(NamedTuple):
    type: str
    name: str
    token_authenticated: bool = False
    """Whether a delegation token authenticated it: such a client cannot create further tokens."""

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @property
    def base(self) -> Principal:
        """The principal that ACLs name, however it was authenticated."""
        return Principal(self.type, self.name) if self.token_authenticated else self


ANONYMOUS = Principal(USER, "ANONYMOUS")


def parse_principal(text: str) -> Principal:
    """Parse ``type:name``; raises ValueError."""
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise ValueError(f"{text!r} is not a principal; write it as type:name, such as User:alice")
    return Principal(kind, name)
