"""Prints results: aligned text, JSON or YAML."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

import click

from ruslo.cli.terminal.output_format import document, stream_item
from ruslo.model.units import human_bytes as human_bytes


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns are two spaces apart and never truncated; numbers are right-aligned."""
    for line in table_lines(headers, rows):
        click.echo(line)


def table_lines(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    values = [list(row) for row in rows]
    numeric = [
        bool(values) and all(isinstance(row[i], int | float) for row in values) for i in range(len(headers))
    ]
    cells = [[_cell(value) for value in row] for row in values]
    widths = [max(len(header), *(len(row[i]) for row in cells), 0) for i, header in enumerate(headers)]
    lines = []
    for row in [list(headers), *cells]:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return lines


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value) or "-"
    return str(value)


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Print ``name: value`` lines with aligned values."""
    pairs = [(name + ":", _cell(value)) for name, value in fields]
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        click.echo(f"{name.ljust(width)}  {value}")


def shown_time(timestamp_ms: int) -> str:
    """Local time with its UTC offset."""
    return datetime.fromtimestamp(timestamp_ms / 1000).astimezone().isoformat(sep=" ", timespec="seconds")


def print_json(value: object) -> None:
    """Print a result as JSON, or as YAML with ``-o yaml``."""
    click.echo(document(value))


class View(Protocol):
    """A result with a form for JSON."""

    def as_json(self) -> object: ...


ViewT = TypeVar("ViewT", bound=View)


def print_views(views: Sequence[ViewT], output: str, print_view: Callable[[ViewT], None]) -> None:
    """Print views as data, or one after the other with an empty line between them."""
    if output == "json":
        print_json([view.as_json() for view in views])
        return
    for number, view in enumerate(views):
        if number:
            click.echo()
        print_view(view)


def print_json_line(value: object) -> None:
    click.echo(stream_item(value))


def hint(text: str) -> None:
    """Suggest the next command on stderr, only if it is a terminal."""
    if sys.stderr.isatty():
        click.echo(text, err=True)
