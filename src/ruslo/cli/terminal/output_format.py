"""``-o table|json|yaml``. Commands know only text and JSON; YAML is a rendering of the JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

# A click decorator returns the function that it takes.
F = TypeVar("F", bound=Callable[..., Any])

_YAML = "ruslo.cli.yaml"


class OutputFormat(click.Choice[str]):
    """table, json or yaml; ``text`` is an alias of table."""

    def __init__(self) -> None:
        super().__init__(["table", "json", "yaml"])

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert("table" if value == "text" else value, param, ctx)


def output_option(function: F) -> F:
    return click.option(
        "-o",
        "--output",
        type=OutputFormat(),
        default="table",
        show_default=True,
        callback=_kind,
        help="Output format.",
    )(function)


def _kind(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """``text`` or ``json`` for the command; the choice of YAML is kept in the context."""
    ctx.meta[_YAML] = value == "yaml"
    return "text" if value == "table" else "json"


def as_yaml() -> bool:
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(_YAML))


def document(value: object) -> str:
    """A complete result."""
    if as_yaml():
        from ruslo.cli.terminal.yaml_text import to_yaml

        return to_yaml(value).rstrip("\n")
    import json

    return json.dumps(value, indent=2, ensure_ascii=False)


def stream_item(value: object) -> str:
    """One item of a stream: a line of JSON, or a YAML document."""
    if as_yaml():
        from ruslo.cli.terminal.yaml_text import to_yaml

        return "---\n" + to_yaml(value).rstrip("\n")
    import json

    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
