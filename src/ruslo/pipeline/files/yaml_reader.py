"""Reads YAML into a tree of located values."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from ruslo.pipeline.keys.finding import Findings, Location
from ruslo.pipeline.keys.located import Located, Scalar

_VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\})")


def read_yaml(
    text: str, path: Path, findings: Findings, environment: Mapping[str, str] | None = None
) -> Located | None:
    """None if the YAML is invalid or empty; ``findings`` has the reason."""
    begin = Location(path, 1, 1)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        location = begin if mark is None else _location(path, mark)
        context = f" {error.context}" if error.context else ""
        findings.error(location, "yaml", f"invalid YAML: {error.problem or 'it cannot be parsed'}{context}")
        return None
    except yaml.reader.ReaderError as error:
        findings.error(begin, "yaml", f"invalid YAML: {error.reason} at character {error.position}")
        return None
    if node is None:
        findings.error(begin, "empty", "the file is empty", "Create one with 'ruslo pipeline init'.")
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
        location = _location(self._path, node.start_mark)
        if id(node) in self._above:
            self._findings.error(
                location, "yaml", "an anchor (&name) contains itself", "Write out the value."
            )
            return Located(None, location)
        self._above.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, location)
            if isinstance(node, yaml.SequenceNode):
                return Located([self.read(item) for item in node.value], location)
            assert isinstance(node, yaml.ScalarNode)
            return self._scalar(node, location)
        finally:
            self._above.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, location: Location) -> Located:
        values: dict[str, Located] = {}
        key_locations: dict[str, Location] = {}
        for key_node, value_node in node.value:
            key_location = _location(self._path, key_node.start_mark)
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else ""
            if not key:
                self._findings.error(key_location, "yaml", "a key must be text", "Write 'name: value'.")
                continue
            if key in values:
                self._findings.error(
                    key_location,
                    "duplicate-key",
                    f"duplicate key {key!r}, first in line {key_locations[key].line}",
                    "Remove one of them.",
                )
            values[key], key_locations[key] = self.read(value_node), key_location
        return Located(values, location, key_locations)

    def _scalar(self, node: yaml.ScalarNode, location: Location) -> Located:
        tag = node.tag
        try:
            value = self._constructor.construct_object(node)
        except (yaml.MarkedYAMLError, ValueError) as error:
            problem = error.problem if isinstance(error, yaml.MarkedYAMLError) else str(error)
            self._findings.error(location, "yaml", f"cannot parse {node.value!r}: {problem}")
            return Located(None, location)
        if isinstance(value, datetime.date) or not isinstance(value, str | int | float | bool | None):
            value = node.value  # YAML dates stay text: the type of the column decides
        if not isinstance(value, str):
            return Located(value, location)
        expanded = self._expand(value, location) if tag.endswith(":str") else value
        return Located(expanded, location, text_lines=self._text_lines(node, location))

    def _expand(self, text: str, location: Location) -> Scalar:
        """``${NAME}`` and ``${NAME:-default}`` from the environment; ``$$`` is a dollar sign."""

        def value(match: re.Match[str]) -> str:
            name, default = match["name"], match["default"]
            if name is None:
                return "$"
            if name in self._environment:
                return self._environment[name]
            if default is None:
                self._findings.warning(
                    location,
                    "unset-variable",
                    f"the environment variable {name} is not set",
                    f"Set it, or give a default: ${{{name}:-value}}.",
                )
            return default or ""

        return _VARIABLE.sub(value, text)

    def _text_lines(self, node: yaml.ScalarNode, location: Location) -> tuple[Location, ...]:
        if node.style not in ("|", ">"):
            quote = 1 if node.style in ("'", '"') else 0
            return (Location(location.file, location.line, location.column + quote),)
        if node.style == ">":
            return ()  # folded: lines of the file are not lines of the text
        first = node.start_mark.line + 1
        end = min(node.end_mark.line + 1, len(self._lines))
        column = self._margin(first) + 1
        return tuple(Location(self._path, number + 1, column) for number in range(first, end))

    def _margin(self, first: int) -> int:
        """The indentation of a block: that of its first line that is not blank."""
        for line in self._lines[first:]:
            if line.strip():
                return len(line) - len(line.lstrip())
        return 0


def _location(path: Path, mark: yaml.Mark) -> Location:
    return Location(path, mark.line + 1, mark.column + 1)
