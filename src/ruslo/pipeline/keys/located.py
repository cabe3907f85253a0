"""The content of a pipeline file as a tree of values with locations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from ruslo.pipeline.keys.finding import Location

Scalar: TypeAlias = str | int | float | bool | Callable[..., object] | None
"""Only pipelines that are Python modules contain functions."""


@dataclass(frozen=True, slots=True)
class Located:
    """``value`` is a scalar, a list of Located, or a dict of Located, whose keys have their own locations.

    ``text_lines`` has the location of each line of a block text, for findings inside it.
    """

    value: Scalar | list[Located] | dict[str, Located]
    location: Location
    key_locations: dict[str, Location] = field(default_factory=dict)
    text_lines: tuple[Location, ...] = ()

    def items(self) -> Iterator[tuple[str, Located]]:
        assert isinstance(self.value, dict), "only a mapping has items"
        yield from self.value.items()

    def key_location(self, key: str) -> Location:
        return self.key_locations.get(key, self.location)

    def location_in_text(self, line: int, column: int) -> Location:
        """The location in the file of a line and column (from 1) of this text."""
        if 1 <= line <= len(self.text_lines):
            begin = self.text_lines[line - 1]
            return Location(begin.file, begin.line, begin.column + column - 1)
        return self.location

    def plain(self) -> object:
        """The value without locations."""
        if isinstance(self.value, dict):
            return {key: item.plain() for key, item in self.value.items()}
        if isinstance(self.value, list):
            return [item.plain() for item in self.value]
        return self.value


def kind_of(value: object) -> str:
    """The type of a value, for messages."""
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
