"""Parses the schema of a source, in Spark's DDL: ``id BIGINT, at TIMESTAMP, tags ARRAY<STRING>``.

It finds misspelt types before Spark starts; Spark parses the same text again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from ruslo.pipeline.suggestions import nearest

_PLAIN = frozenset(
    [
        "string",
        "boolean",
        "byte",
        "tinyint",
        "short",
        "smallint",
        "int",
        "integer",
        "long",
        "bigint",
        "float",
        "real",
        "double",
        "date",
        "timestamp",
        "timestamp_ntz",
        "timestamp_ltz",
        "binary",
        "variant",
        "void",
    ]
)
_SIZED = {"decimal": 2, "dec": 2, "numeric": 2, "varchar": 1, "char": 1, "character": 1, "time": 1}
_NESTED = frozenset({"array", "map", "struct"})
_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'(?:[^'\\]|\\.)*')|(?P<word>\w+)|(?P<sign>[<>(),:]))"
)


@dataclass(frozen=True, slots=True)
class Struct:
    """Fields by name."""

    fields: dict[str, FieldType]


@dataclass(frozen=True, slots=True)
class Array:
    element: FieldType


@dataclass(frozen=True, slots=True)
class Map:
    value: FieldType


FieldType: TypeAlias = Struct | Array | Map | str


class SchemaProblem(ValueError):
    """Why a schema is invalid, and where: ``column`` counts from 1."""

    def __init__(self, message: str, fix: str, column: int) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.column = column


def parse_schema(text: str) -> Struct:
    return _Parser(text).schema()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str, int]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                at = position + len(text[position:]) - len(text[position:].lstrip())
                raise SchemaProblem(
                    f"unexpected character {text[at]!r}", "Write: name TYPE, name TYPE.", at + 1
                )
            kind = match.lastgroup or ""
            self._tokens.append((kind, match[kind], match.start(kind) + 1))
            position = match.end()
        self._tokens.append(("end", "the end", end + 1))
        self._next = 0

    def schema(self) -> Struct:
        fields = self._fields(until="the end")
        return Struct(fields)

    def _fields(self, until: str) -> dict[str, FieldType]:
        fields: dict[str, FieldType] = {}
        while True:
            kind, name, column = self._take()
            if kind not in ("word", "quoted"):
                raise SchemaProblem(f"a column name is missing before {name!r}", "Write: name TYPE.", column)
            name = name[1:-1].replace("``", "`") if kind == "quoted" else name
            if name.lower() in (known.lower() for known in fields):
                raise SchemaProblem(f"duplicate column {name!r}", "Rename or remove one.", column)
            if self._peek() == ":":
                self._take()
            fields[name] = self._type()
            self._modifiers()
            _, sign, column = self._take()
            if sign == until:
                return fields
            if sign != ",":
                raise SchemaProblem(f"unexpected {sign!r}", "Separate columns with commas.", column)

    def _type(self) -> FieldType:
        kind, name, column = self._take()
        word = name.lower()
        if kind != "word" or word not in _PLAIN | _NESTED | _SIZED.keys():
            raise SchemaProblem(
                f"unknown type {name!r}", nearest(word, [*_PLAIN, *_NESTED, "decimal"]), column
            )
        if word in _SIZED:
            self._size(_SIZED[word], column)
            return word
        if word not in _NESTED:
            return word
        self._expect("<")
        if word == "struct":
            return Struct(self._fields(until=">"))
        first = self._type()
        if word == "array":
            self._expect(">")
            return Array(first)
        self._expect(",")
        value = self._type()
        self._expect(">")
        return Map(value)

    def _size(self, most: int, column: int) -> None:
        if self._peek() != "(":
            return
        self._take()
        for count in range(most):
            kind, number, column = self._take()
            if kind != "word" or not number.isdigit():
                raise SchemaProblem(
                    f"invalid number of digits {number!r}", "Write e.g. DECIMAL(10, 2).", column
                )
            if self._peek() == ")" or count == most - 1:
                break
            self._expect(",")
        self._expect(")")

    def _modifiers(self) -> None:
        if self._peek().lower() == "not":
            self._take()
            self._expect("null")
        if self._peek().lower() == "comment":
            self._take()
            self._take()

    def _peek(self) -> str:
        return self._tokens[self._next][1]

    def _take(self) -> tuple[str, str, int]:
        token = self._tokens[self._next]
        if token[0] != "end":
            self._next += 1
        return token

    def _expect(self, sign: str) -> None:
        _, found, column = self._take()
        if found.lower() != sign:
            raise SchemaProblem(f"{sign!r} is missing before {found!r}", "", column)
