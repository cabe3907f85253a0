"""The content of a pipeline file as a tree in which every value knows its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from ruslo.pipeline.files.finding import Place

Scalar: TypeAlias = str | int | float | bool | Callable[..., object] | None
"""Functions occur in pipelines that are Python modules."""


@dataclass(frozen=True, slots=True)
class Located:
    """``value`` is a scalar, a list of Located, or a dict of Located; keys have places of their own.

    ``text_lines`` is the place of each line of a text that was written as a block, so that a mistake inside
    of it can be pointed at.
    """

    value: Scalar | list[Located] | dict[str, Located]
    place: Place
    key_places: dict[str, Place] = field(default_factory=dict)
    text_lines: tuple[Place, ...] = ()

    def items(self) -> Iterator[tuple[str, Located]]:
        assert isinstance(self.value, dict), "only a mapping has items"
        yield from self.value.items()

    def key_place(self, key: str) -> Place:
        return self.key_places.get(key, self.place)

    def place_in_text(self, line: int, column: int) -> Place:
        """The place of a line and column (from 1) of this text in the file."""
        if 1 <= line <= len(self.text_lines):
            begin = self.text_lines[line - 1]
            return Place(begin.file, begin.line, begin.column + column - 1)
        return self.place

    def plain(self) -> object:
        """The same without places."""
        if isinstance(self.value, dict):
            return {key: item.plain() for key, item in self.value.items()}
        if isinstance(self.value, list):
            return [item.plain() for item in self.value]
        return self.value


def kind_of(value: object) -> str:
    """What a value is, in a user's words."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "a mapping"
    return "a function"
