"""Checks SQL without Spark, and finds the tables that it reads.

It reports unclosed quotes, comments and brackets, several statements, statements that are not queries, a
misspelt first word, and a comma with nothing after it. Grammar, columns, types and functions are checked by
Spark (``lint --spark``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ruslo.pipeline.suggestions import nearest

_BEGINNINGS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
_TOKENS = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<comment>--[^\n]*|/\*.*?\*/)"
    r"|(?P<text>[rR]?'(?:[^'\\]|\\.|'')*'|[rR]?\"(?:[^\"\\]|\\.|\"\")*\")"
    r"|(?P<quoted>`(?:[^`]|``)*`)"
    r"|(?P<open>/\*|'|\"|`)"
    r"|(?P<word>[^\W\d]\w*)"
    r"|(?P<number>\d[\w.]*)"
    r"|(?P<sign>->|=>|::|<=>|\|>|[<>!=]=|.)",
    re.DOTALL,
)
_CLOSING = {"(": ")", "[": "]"}
# Words that end a FROM clause: after them commas do not separate tables.
_ENDS_FROM = frozenset(
    [
        "WHERE",
        "GROUP",
        "HAVING",
        "ORDER",
        "SORT",
        "CLUSTER",
        "DISTRIBUTE",
        "LIMIT",
        "OFFSET",
        "UNION",
        "INTERSECT",
        "EXCEPT",
        "MINUS",
        "WINDOW",
        "SELECT",
        "LATERAL",
        "PIVOT",
        "UNPIVOT",
        "ON",
        "USING",
    ]
)
_FUNCTIONS_WITH_FROM = frozenset({"EXTRACT", "TRIM", "SUBSTRING", "OVERLAY", "POSITION"})
_NO_TABLE = frozenset({"SELECT", "VALUES", "LATERAL"})
_NO_ITEM = frozenset(["FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION"])


@dataclass(frozen=True, slots=True)
class SqlToken:
    kind: str
    text: str
    line: int
    column: int

    @property
    def upper(self) -> str:
        return self.text.upper() if self.kind == "word" else self.text

    @property
    def name(self) -> str:
        return self.text[1:-1].replace("``", "`") if self.kind == "quoted" else self.text


@dataclass(frozen=True, slots=True)
class SqlProblem:
    message: str
    fix: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class TableRead:
    name: str
    line: int
    column: int


def tokens_of(sql: str) -> list[SqlToken]:
    found = []
    line, line_start = 1, 0
    for match in _TOKENS.finditer(sql):
        kind, text = match.lastgroup or "", match[0]
        if kind not in ("space", "comment"):
            found.append(SqlToken(kind, text, line, match.start() - line_start + 1))
        breaks = text.count("\n")
        if breaks:
            line, line_start = line + breaks, match.start() + text.rindex("\n") + 1
    return found


def problems_of(sql: str) -> list[SqlProblem]:
    tokens = tokens_of(sql)
    for token in tokens:
        if token.kind == "open":
            what = {"/*": "comment", "`": "name in backquotes"}.get(token.text, "text")
            return [SqlProblem(f"unclosed {what}", "Close it.", token.line, token.column)]
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    if not tokens:
        return [SqlProblem("the query is empty", "Write a SELECT.", 1, 1)]
    return [*_beginning(tokens), *_brackets(tokens), *_statements(tokens), *_commas(tokens)]


def tables_of(sql: str) -> list[TableRead]:
    """Every name after FROM, JOIN and TABLE that is neither a common table expression nor a function."""
    tokens = tokens_of(sql)
    own = _common_table_names(tokens)
    return [read for read in _reads(tokens) if read.name.lower() not in own]


def _beginning(tokens: list[SqlToken]) -> Iterator[SqlProblem]:
    first = next((token for token in tokens if token.text != "("), tokens[0])
    if first.upper not in _BEGINNINGS:
        near = nearest(first.upper, _BEGINNINGS)
        fix = near if near.startswith("Did") else "Start the query with SELECT or WITH."
        yield SqlProblem(f"a query cannot start with {first.text!r}", fix, first.line, first.column)


def _brackets(tokens: list[SqlToken]) -> Iterator[SqlProblem]:
    opened: list[SqlToken] = []
    for token in tokens:
        if token.text in _CLOSING:
            opened.append(token)
        elif token.kind == "sign" and token.text in _CLOSING.values():
            if not opened or _CLOSING[opened[-1].text] != token.text:
                yield SqlProblem(
                    f"unmatched {token.text!r}",
                    "Remove it, or open a bracket before it.",
                    token.line,
                    token.column,
                )
                return
            opened.pop()
    for token in opened[-1:]:
        closing = _CLOSING[token.text]
        yield SqlProblem(f"unclosed {token.text!r}", f"Add {closing!r}.", token.line, token.column)


def _statements(tokens: list[SqlToken]) -> Iterator[SqlProblem]:
    for token in tokens:
        if token.text == ";":
            yield SqlProblem(
                "a step must be one statement", "Make the second one a step.", token.line, token.column
            )
            return


def _commas(tokens: list[SqlToken]) -> Iterator[SqlProblem]:
    for before, token in zip([None, *tokens], [*tokens, None], strict=True):
        if before is None or before.text != ",":
            continue
        if (
            token is None
            or token.text in (",", ")", "]")
            or (token.upper in _NO_ITEM and token.kind == "word")
        ):
            yield SqlProblem("nothing comes after this comma", "Remove it.", before.line, before.column)


def _common_table_names(tokens: list[SqlToken]) -> set[str]:
    """Names followed by ``AS (``, or by a list of columns and ``AS (``."""
    names = set()
    for index, token in enumerate(tokens[:-2]):
        if (
            token.kind in ("word", "quoted")
            and tokens[index + 1].upper == "AS"
            and tokens[index + 2].text == "("
        ):
            names.add(token.name.lower())
        elif token.upper in ("WITH", ",") and tokens[index + 1].kind in ("word", "quoted"):
            end = _after_brackets(tokens, index + 2)
            if (
                end is not None
                and end + 1 < len(tokens)
                and tokens[end].upper == "AS"
                and tokens[end + 1].text == "("
            ):
                names.add(tokens[index + 1].name.lower())
    return names


def _after_brackets(tokens: list[SqlToken], index: int) -> int | None:
    if index >= len(tokens) or tokens[index].text != "(":
        return None
    depth = 0
    for position in range(index, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[position].text, 0)
        if depth == 0:
            return position + 1
    return None


@dataclass(slots=True)
class _Scope:
    """The state between two brackets."""

    table_next: bool = False
    in_from: bool = False
    """Whether commas separate tables."""
    no_query: bool = False
    """Whether FROM is part of a function, as in ``extract(DAY FROM at)`` and ``trim(BOTH ' ' FROM name)``."""


def _reads(tokens: list[SqlToken]) -> Iterator[TableRead]:
    scopes = [_Scope()]
    for index, token in enumerate(tokens):
        scope = scopes[-1]
        if token.text == "(":
            no_query = index > 0 and tokens[index - 1].upper in _FUNCTIONS_WITH_FROM
            scopes.append(_Scope(scope.table_next, scope.table_next, no_query))
            scope.table_next = False
        elif token.text == ")":
            if len(scopes) > 1:
                scopes.pop()
        elif scope.no_query:
            continue
        elif token.upper in ("FROM", "JOIN"):
            if not _is_comparison(tokens, index):
                scope.table_next = scope.in_from = True
        elif token.upper == "TABLE" and index == 0:
            scope.table_next = True
        elif scope.table_next and token.kind in ("word", "quoted") and token.upper not in _NO_TABLE:
            scope.table_next = False
            after = tokens[index + 1].text if index + 1 < len(tokens) else ""
            if after not in (".", "("):  # a table of another catalog, or a table function
                yield TableRead(token.name, token.line, token.column)
        elif token.upper in _ENDS_FROM and token.kind == "word":
            scope.table_next = scope.in_from = False
        elif token.text == ",":
            scope.table_next = scope.in_from
        elif token.upper != "LATERAL":
            scope.table_next = False


def _is_comparison(tokens: list[SqlToken], index: int) -> bool:
    """``a IS [NOT] DISTINCT FROM b``."""
    before = [token.upper for token in tokens[max(0, index - 2) : index]]
    return before in (["IS", "DISTINCT"], ["NOT", "DISTINCT"])
