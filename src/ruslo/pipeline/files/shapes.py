"""What may stand under a key of a pipeline file, declared once: for reading, for lint, for the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from ruslo.model.topics import topic_name_problem
from ruslo.pipeline.files.durations import duration_ms
from ruslo.pipeline.files.finding import Findings, Place, nearest
from ruslo.pipeline.files.located import Located, kind_of
from ruslo.pipeline.files.schema_text import SchemaProblem, parse_schema


class Unreadable(Exception):
    """A value is not what its key asks for."""

    def __init__(self, rule: str, message: str, fix: str = "", place: Place | None = None) -> None:
        super().__init__(message)
        self.rule, self.message, self.fix, self.place = rule, message, fix, place


class Reported(Exception):
    """The mistakes inside a value are among the findings; ``values`` are those of keys without any."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.values = dict(values or {})


class Kind(Protocol):
    """``read`` turns a located value into a plain one, or raises Unreadable or Reported."""

    @property
    def words(self) -> str:
        """What the value is, for the reference."""

    def read(self, value: Located, findings: Findings) -> Any: ...


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    kind: Kind
    doc: str
    required: bool = False
    default: Any = None


def read_keys(
    node: Located, keys: Sequence[Key], findings: Findings, what: str, *, besides: Sequence[str] = ()
) -> dict[str, Any]:
    """The values of a mapping by key, with defaults; every mistake is reported, then Reported is raised.

    ``besides`` are keys that somebody else reads.
    """
    if not isinstance(node.value, dict):
        found = kind_of(node.value)
        findings.error(
            node.place, "wrong-type", f"{what} must be a mapping, this is {found}", "Write 'key: value'."
        )
        raise Reported
    known = {key.name: key for key in keys}
    values: dict[str, Any] = {key.name: key.default for key in keys}
    failed = False
    for name, item in node.value.items():
        if name in besides:
            continue
        if name not in known:
            fix = nearest(name, [*known, *besides])
            findings.error(node.key_place(name), "unknown-key", f"{what} has no key {name!r}", fix)
            failed = True
            continue
        try:
            values[name] = known[name].kind.read(item, findings)
        except Unreadable as error:
            findings.error(error.place or item.place, error.rule, f"{name}: {error.message}", error.fix)
            failed = True
        except Reported:
            failed = True
    for key in keys:
        if key.required and key.name not in node.value:
            findings.error(
                node.place, "missing-key", f"{what} has no {key.name!r}", f"Add '{key.name}: …' ({key.doc})."
            )
            failed = True
    if failed:
        raise Reported(values)
    return values


@dataclass(frozen=True, slots=True)
class Text:
    words: str = "text"

    def read(self, value: Located, findings: Findings) -> str:
        if isinstance(value.value, bool) or not isinstance(value.value, str | int | float):
            raise Unreadable("wrong-type", f"must be text, this is {kind_of(value.value)}")
        text = str(value.value)
        if not text.strip():
            raise Unreadable("empty-value", "is empty", "Give a value, or remove the key.")
        return text


@dataclass(frozen=True, slots=True)
class Topic:
    words: str = "a topic"

    def read(self, value: Located, findings: Findings) -> str:
        name = Text().read(value, findings)
        problem = topic_name_problem(name)
        if problem is not None:
            raise Unreadable("topic-name", f"this can be no topic's name: {problem}")
        return name


@dataclass(frozen=True, slots=True)
class Choice:
    choices: tuple[str, ...]

    @property
    def words(self) -> str:
        return ", ".join(f"`{choice}`" for choice in self.choices)

    def read(self, value: Located, findings: Findings) -> str:
        if not isinstance(value.value, str) or value.value not in self.choices:
            word = str(value.value)
            near = nearest(word, self.choices)
            raise Unreadable("choice", f"{word!r} is not one of {', '.join(self.choices)}", near)
        return value.value


@dataclass(frozen=True, slots=True)
class Flag:
    words: str = "`true` or `false`"

    def read(self, value: Located, findings: Findings) -> bool:
        if not isinstance(value.value, bool):
            raise Unreadable("wrong-type", f"must be true or false, this is {kind_of(value.value)}")
        return value.value


@dataclass(frozen=True, slots=True)
class Whole:
    least: int = 0
    words: str = "a whole number"

    def read(self, value: Located, findings: Findings) -> int:
        number = value.value
        if isinstance(number, str) and number.isdigit():
            number = int(number)  # from ${VARIABLE}
        if isinstance(number, bool) or not isinstance(number, int):
            raise Unreadable("wrong-type", f"must be a whole number, this is {kind_of(value.value)}")
        if number < self.least:
            raise Unreadable("out-of-range", f"must be at least {self.least}, this is {number}")
        return number


@dataclass(frozen=True, slots=True)
class Duration:
    """In milliseconds; ``instead`` are words that stand for something else and are left as they are."""

    instead: tuple[str, ...] = ()

    @property
    def words(self) -> str:
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
                "duration", f"{text!r} is no duration", f"Write 500ms, 10s, 5m, 1h30m or 7d{also}."
            ) from None


@dataclass(frozen=True, slots=True)
class ListOf:
    """One value may be written without the list around it."""

    item: Kind

    @property
    def words(self) -> str:
        return f"{self.item.words}, or a list"

    def read(self, value: Located, findings: Findings) -> tuple[Any, ...]:
        nodes = value.value if isinstance(value.value, list) else [value]
        items: list[Any] = []
        failed = False
        for node in nodes:
            try:
                items.append(self.item.read(node, findings))
            except Unreadable as error:
                findings.error(error.place or node.place, error.rule, error.message, error.fix)
                failed = True
            except Reported:
                failed = True
        if failed:
            raise Reported
        if not items:
            raise Unreadable("empty-value", "the list is empty", "Name at least one, or remove the key.")
        return tuple(items)


@dataclass(frozen=True, slots=True)
class Options:
    """Settings by name, handed on as they are."""

    words: str = "a mapping"

    def read(self, value: Located, findings: Findings) -> dict[str, str]:
        if not isinstance(value.value, dict):
            raise Unreadable("wrong-type", f"must be a mapping, this is {kind_of(value.value)}")
        options: dict[str, str] = {}
        for name, item in value.value.items():
            if not isinstance(item.value, str | int | float | bool):
                raise Unreadable(
                    "wrong-type",
                    f"{name} must be text or a number, this is {kind_of(item.value)}",
                    place=item.place,
                )
            options[name] = str(item.value).lower() if isinstance(item.value, bool) else str(item.value)
        return options


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns as Spark writes them, or as a mapping of names to types."""

    words: str = "columns, as `id BIGINT, at TIMESTAMP`, or a mapping of names to types"

    def read(self, value: Located, findings: Findings) -> str:
        if isinstance(value.value, dict):
            for name, item in value.value.items():
                self._check(f"`{name}` {Text().read(item, findings)}", partial(_place_as_a_whole, item))
            return ", ".join(f"`{name}` {item.value}" for name, item in value.value.items())
        text = Text().read(value, findings)
        self._check(text, partial(_place_of_character, value, text))
        return text

    def _check(self, text: str, place_of: Callable[[int], Place]) -> None:
        try:
            parse_schema(text)
        except SchemaProblem as problem:
            raise Unreadable("schema", problem.message, problem.fix, place_of(problem.column)) from None


def _place_as_a_whole(node: Located, column: int) -> Place:
    return node.place


def _place_of_character(node: Located, text: str, column: int) -> Place:
    before = text[: column - 1]
    return node.place_in_text(before.count("\n") + 1, column - 1 - before.rfind("\n"))


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping with keys of its own, made into something by ``build``; ``short`` reads a single word."""

    what: str
    keys: tuple[Key, ...]
    build: Callable[..., Any]
    short: Mapping[str, Callable[[], Any]] = field(default_factory=dict)

    @property
    def words(self) -> str:
        return " or ".join(["a mapping, see below", *(f"`{word}`" for word in self.short)])

    def read(self, value: Located, findings: Findings) -> Any:
        if isinstance(value.value, str) and self.short:
            if value.value not in self.short:
                raise Unreadable(
                    "choice", f"{value.value!r} means nothing here", nearest(value.value, self.short)
                )
            return self.short[value.value]()
        return self.build(**read_keys(value, self.keys, findings, self.what))
