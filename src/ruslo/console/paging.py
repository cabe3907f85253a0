"""Pages of long lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ruslo.console.forms import Form

T = TypeVar("T")


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
