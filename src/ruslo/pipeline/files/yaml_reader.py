"""YAML into a tree of located values."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from ruslo.pipeline.files.finding import Findings, Place
from ruslo.pipeline.files.located import Located, Scalar

_VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\})")


def read_yaml(
    text: str, path: Path, findings: Findings, environment: Mapping[str, str] | None = None
) -> Located | None:
    """None when the text is no YAML at all, or empty; ``findings`` then says why."""
    begin = Place(path, 1, 1)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = begin if mark is None else _place(path, mark)
        context = f" {error.context}" if error.context else ""
        findings.error(place, "yaml", f"this is no YAML: {error.problem or 'it cannot be read'}{context}")
        return None
    except yaml.reader.ReaderError as error:
        findings.error(begin, "yaml", f"this is no YAML: {error.reason} at character {error.position}")
        return None
    if node is None:
        findings.error(begin, "empty", "the file is empty", "'ruslo pipeline init' writes one to begin with.")
        return None
    return _Reader(text, path, findings, os.environ if environment is None else environment).read(node)


class _Reader:
    def __init__(self, text: str, path: Path, findings: Findings, environment: Mapping[str, str]) -> None:
        self._lines = text.splitlines()
        self._path = path
        self._findings = findings
        self._environment = environment
        self._constructor = yaml.SafeLoader("")
        self._above: set[int] = set()

    def read(self, node: yaml.Node) -> Located:
        place = _place(self._path, node.start_mark)
        if id(node) in self._above:
            self._findings.error(place, "yaml", "an anchor (&name) holds itself", "Write the value out.")
            return Located(None, place)
        self._above.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, place)
            if isinstance(node, yaml.SequenceNode):
                return Located([self.read(item) for item in node.value], place)
            assert isinstance(node, yaml.ScalarNode)
            return self._scalar(node, place)
        finally:
            self._above.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, place: Place) -> Located:
        values: dict[str, Located] = {}
        key_places: dict[str, Place] = {}
        for key_node, value_node in node.value:
            key_place = _place(self._path, key_node.start_mark)
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else ""
            if not key:
                self._findings.error(key_place, "yaml", "a key must be text", "Write it as 'name: value'.")
                continue
            if key in values:
                self._findings.error(
                    key_place,
                    "duplicate-key",
                    f"{key!r} is here twice, first in line {key_places[key].line}",
                    "Remove one of them.",
                )
            values[key], key_places[key] = self.read(value_node), key_place
        return Located(values, place, key_places)

    def _scalar(self, node: yaml.ScalarNode, place: Place) -> Located:
        tag = node.tag
        try:
            value = self._constructor.construct_object(node)
        except (yaml.MarkedYAMLError, ValueError) as error:
            problem = error.problem if isinstance(error, yaml.MarkedYAMLError) else str(error)
            self._findings.error(place, "yaml", f"{node.value!r} cannot be read: {problem}")
            return Located(None, place)
        if isinstance(value, datetime.date) or not isinstance(value, str | int | float | bool | None):
            value = node.value  # what YAML takes for a date is a text here: its column's type decides
        if not isinstance(value, str):
            return Located(value, place)
        expanded = self._expand(value, place) if tag.endswith(":str") else value
        return Located(expanded, place, text_lines=self._text_lines(node, place))

    def _expand(self, text: str, place: Place) -> Scalar:
        """``${NAME}`` and ``${NAME:-default}`` from the environment; ``$$`` is a dollar sign."""

        def value(match: re.Match[str]) -> str:
            name, default = match["name"], match["default"]
            if name is None:
                return "$"
            if name in self._environment:
                return self._environment[name]
            if default is None:
                self._findings.warning(
                    place,
                    "unset-variable",
                    f"the environment variable {name} is not set",
                    f"Set it, or give a default: ${{{name}:-value}}.",
                )
            return default or ""

        return _VARIABLE.sub(value, text)

    def _text_lines(self, node: yaml.ScalarNode, place: Place) -> tuple[Place, ...]:
        if node.style not in ("|", ">"):
            quote = 1 if node.style in ("'", '"') else 0
            return (Place(place.file, place.line, place.column + quote),)
        if node.style == ">":
            return ()  # folded: lines of the file are not lines of the text
        first = node.start_mark.line + 1
        end = min(node.end_mark.line + 1, len(self._lines))
        column = self._margin(first) + 1
        return tuple(Place(self._path, number + 1, column) for number in range(first, end))

    def _margin(self, first: int) -> int:
        """How far a block is indented: as its first line that is not blank."""
        for line in self._lines[first:]:
            if line.strip():
                return len(line) - len(line.lstrip())
        return 0


def _place(path: Path, mark: yaml.Mark) -> Place:
    return Place(path, mark.line + 1, mark.column + 1)
