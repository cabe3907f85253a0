"""Options that several commands share, so that each is spelled and explained once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

# A click decorator takes and returns any function; ParamSpec cannot express that it keeps it.
F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


def bootstrap_option(function: F) -> F:
    return click.option(
        "--bootstrap-server",
        "-b",
        "bootstrap",
        envvar="RUSLO_BOOTSTRAP",
        default=DEFAULT_BOOTSTRAP,
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT[,…]",
        help="One or more brokers to begin with.",
    )(function)


def output_option(function: F) -> F:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Text for people or JSON for programs.",
    )(function)


def yes_option(function: F) -> F:
    return click.option("--yes", "-y", is_flag=True, help="Do it without asking.")(function)


def property_option(function: F) -> F:
    return click.option(
        "-X",
        "--property",
        "properties",
        multiple=True,
        metavar="KEY=VALUE",
        callback=pairs_callback,
        help="Any client setting by Kafka's name, e.g. -X linger.ms=50. May be repeated.",
    )(function)


def confirm(question: str, yes: bool) -> None:
    """Ask before something is destroyed; without a terminal to ask at, ``--yes`` is the only way."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is nobody to ask: add --yes to go on.")
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)
        raise click.exceptions.Exit(130) from None
    if not agreed:
        click.echo("Nothing was changed.", err=True)
        raise click.exceptions.Exit(1)


def pairs_callback(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """``KEY=VALUE`` words as a dict."""
    pairs = {}
    for value in values:
        key, separator, setting = value.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"{value!r} is not KEY=VALUE", ctx, param)
        pairs[key.strip()] = setting
    return pairs


def examples(*commands: str) -> str:
    """The epilog that every command has; ``\\b`` keeps click from refilling the lines."""
    return "\b\nExamples:\n" + "\n".join(f"  {command}" for command in commands)


LOG_FORMAT_KEY = "ruslo.log.format"
log_format_option = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    help="A line of text or a JSON object for each event; by default what ruslo.log.format says.",
)
