"""Fields of forms and of URL queries, their validation, and pages of long lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from starlette.datastructures import QueryParams

from ruslo.model.errors import RusloError

T = TypeVar("T")


class FormError(RusloError):
    """A form field is invalid; the message is shown to the user."""


class Form:
    def __init__(self, values: Mapping[str, Sequence[str]]) -> None:
        self._values = values

    @classmethod
    def of_query(cls, query: QueryParams) -> Form:
        return cls({name: query.getlist(name) for name in query})

    def text(self, name: str, default: str = "") -> str:
        values = self._values.get(name)
        return values[-1].strip() if values else default

    def raw(self, name: str) -> str:
        """The text as it was typed; browsers send line breaks as CR LF."""
        values = self._values.get(name)
        return values[-1].replace("\r\n", "\n") if values else ""

    def all(self, name: str) -> list[str]:
        return list(self._values.get(name, ()))

    def flag(self, name: str) -> bool:
        return bool(self.text(name))

    def number(
        self, name: str, label: str, *, least: int | None = None, most: int | None = None
    ) -> int | None:
        """The number in a field; None if the field is empty."""
        text = self.text(name).replace(" ", "").replace("_", "")
        if not text:
            return None
        try:
            number = int(text)
        except ValueError:
            raise FormError(f"{label}: {text!r} is not a whole number.") from None
        if (least is not None and number < least) or (most is not None and number > most):
            bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
            raise FormError(f"{label}: {number} is out of range. Enter a number {bounds}.")
        return number

    def choice(self, name: str, allowed: Iterable[str], default: str) -> str:
        text = self.text(name, default)
        return text if text in allowed else default

    def pairs(self) -> list[tuple[str, str]]:
        """All fields, for the form that confirms them."""
        return [(name, value) for name, values in self._values.items() for value in values]


def parse_configs(text: str) -> dict[str, str]:
    """Parse lines of ``name=value``, as in a properties file; skip empty lines and comments."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, separator, value = line.partition("=")
        if not separator or not name.strip():
            raise FormError(f"{line!r} is not in the form name=value.")
        found[name.strip()] = value.strip()
    return found


@dataclass(frozen=True, slots=True)
class Paged(Generic[T]):
    rows: Sequence[T]
    found: int
    """The number of rows on all pages."""
    page: int
    pages: int


def paged(rows: Sequence[T], query: Form, per_page: int) -> Paged[T]:
    """The page that the query selects; the last page if the number is too large."""
    pages = max(1, -(-len(rows) // per_page))
    page = min(max(1, query.number("page", "Page") or 1), pages)
    return Paged(rows[(page - 1) * per_page : page * per_page], len(rows), page, pages)
