"""The types of values in a pipeline file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ruslo.model.topics import topic_name_problem
from ruslo.pipeline.durations import duration_ms
from ruslo.pipeline.keys.finding import Findings, Location
from ruslo.pipeline.keys.key import Key, Reported, Unreadable, ValueType, read_keys
from ruslo.pipeline.keys.located import Located, kind_of
from ruslo.pipeline.keys.schema_text import SchemaProblem, parse_schema
from ruslo.pipeline.suggestions import nearest


@dataclass(frozen=True, slots=True)
class Text:
    description: str = "text"

    def read(self, value: Located, findings: Findings) -> str:
        if isinstance(value.value, bool) or not isinstance(value.value, str | int | float):
            raise Unreadable("wrong-type", f"must be text, not {kind_of(value.value)}")
        text = str(value.value)
        if not text.strip():
            raise Unreadable("empty-value", "the value is empty", "Set a value, or remove the key.")
        return text


@dataclass(frozen=True, slots=True)
class Topic:
    description: str = "a topic"

    def read(self, value: Located, findings: Findings) -> str:
        name = Text().read(value, findings)
        problem = topic_name_problem(name)
        if problem is not None:
            raise Unreadable("topic-name", f"invalid topic name: {problem}")
        return name


@dataclass(frozen=True, slots=True)
class Choice:
    choices: tuple[str, ...]

    @property
    def description(self) -> str:
        return ", ".join(f"`{choice}`" for choice in self.choices)

    def read(self, value: Located, findings: Findings) -> str:
        if not isinstance(value.value, str) or value.value not in self.choices:
            word = str(value.value)
            near = nearest(word, self.choices)
            raise Unreadable("choice", f"{word!r} is not one of {', '.join(self.choices)}", near)
        return value.value


@dataclass(frozen=True, slots=True)
class Flag:
    description: str = "`true` or `false`"

    def read(self, value: Located, findings: Findings) -> bool:
        if not isinstance(value.value, bool):
            raise Unreadable("wrong-type", f"must be true or false, not {kind_of(value.value)}")
        return value.value


@dataclass(frozen=True, slots=True)
class Whole:
    least: int = 0
    description: str = "a whole number"

    def read(self, value: Located, findings: Findings) -> int:
        number = value.value
        if isinstance(number, str) and number.isdigit():
            number = int(number)  # from ${VARIABLE}
        if isinstance(number, bool) or not isinstance(number, int):
            raise Unreadable("wrong-type", f"must be a whole number, not {kind_of(value.value)}")
        if number < self.least:
            raise Unreadable("out-of-range", f"must be at least {self.least}, not {number}")
        return number


@dataclass(frozen=True, slots=True)
class Duration:
    """A duration in milliseconds, or one of the words ``instead``, which is returned unchanged."""

    instead: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        return " or ".join(["a duration", *(f"`{word}`" for word in self.instead)])

    def read(self, value: Located, findings: Findings) -> int | str:
        text = value.value
        if isinstance(text, str) and text in self.instead:
            return text
        try:
            return duration_ms(text if isinstance(text, str) else str(text))
        except ValueError:
            also = f" or {', '.join(self.instead)}" if self.instead else ""
            raise Unreadable(
                "duration", f"invalid duration {text!r}", f"Write 500ms, 10s, 5m, 1h30m or 7d{also}."
            ) from None


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list, or a single value without the list."""

    item: ValueType

    @property
    def description(self) -> str:
        return f"{self.item.description}, or a list"

    def read(self, value: Located, findings: Findings) -> tuple[Any, ...]:
        nodes = value.value if isinstance(value.value, list) else [value]
        items: list[Any] = []
        failed = False
        for node in nodes:
            try:
                items.append(self.item.read(node, findings))
            except Unreadable as error:
                findings.error(error.location or node.location, error.rule, error.message, error.fix)
                failed = True
            except Reported:
                failed = True
        if failed:
            raise Reported
        if not items:
            raise Unreadable("empty-value", "the list is empty", "Add a value, or remove the key.")
        return tuple(items)


@dataclass(frozen=True, slots=True)
class Options:
    """Settings by name, passed on unchanged."""

    description: str = "a mapping"

    def read(self, value: Located, findings: Findings) -> dict[str, str]:
        if not isinstance(value.value, dict):
            raise Unreadable("wrong-type", f"must be a mapping, not {kind_of(value.value)}")
        options: dict[str, str] = {}
        for name, item in value.value.items():
            if not isinstance(item.value, str | int | float | bool):
                raise Unreadable(
                    "wrong-type",
                    f"{name} must be text or a number, not {kind_of(item.value)}",
                    location=item.location,
                )
            options[name] = str(item.value).lower() if isinstance(item.value, bool) else str(item.value)
        return options


@dataclass(frozen=True, slots=True)
class Schema:
    """Columns in Spark's DDL, or as a mapping of names to types."""

    description: str = "columns such as `id BIGINT, at TIMESTAMP`, or a mapping of names to types"

    def read(self, value: Located, findings: Findings) -> str:
        if isinstance(value.value, dict):
            for name, item in value.value.items():
                self._check(f"`{name}` {Text().read(item, findings)}", partial(_whole_location, item))
            return ", ".join(f"`{name}` {item.value}" for name, item in value.value.items())
        text = Text().read(value, findings)
        self._check(text, partial(_character_location, value, text))
        return text

    def _check(self, text: str, location_of: Callable[[int], Location]) -> None:
        try:
            parse_schema(text)
        except SchemaProblem as problem:
            raise Unreadable("schema", problem.message, problem.fix, location_of(problem.column)) from None


def _whole_location(node: Located, column: int) -> Location:
    return node.location


def _character_location(node: Located, text: str, column: int) -> Location:
    before = text[: column - 1]
    return node.location_in_text(before.count("\n") + 1, column - 1 - before.rfind("\n"))


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping with its own keys, converted by ``build``; ``short`` are words that replace it."""

    what: str
    keys: tuple[Key, ...]
    build: Callable[..., Any]
    short: Mapping[str, Callable[[], Any]] = field(default_factory=dict)

    @property
    def description(self) -> str:
        return " or ".join(["a mapping (see below)", *(f"`{word}`" for word in self.short)])

    def read(self, value: Located, findings: Findings) -> Any:
        if isinstance(value.value, str) and self.short:
            if value.value not in self.short:
                raise Unreadable("choice", f"unknown value {value.value!r}", nearest(value.value, self.short))
            return self.short[value.value]()
        return self.build(**read_keys(value, self.keys, findings, self.what))
