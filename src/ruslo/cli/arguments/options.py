"""Options that several commands share, so that each is spelled and explained once."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from ruslo.cli.terminal.output_format import output_option as output_option

# A click decorator takes and returns any function; ParamSpec cannot express that it keeps it.
F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


def default_bootstrap() -> str:
    from ruslo.cli.arguments.profiles import BOOTSTRAP, active_profile

    profile = active_profile()
    return DEFAULT_BOOTSTRAP if profile is None else profile.settings.get(BOOTSTRAP, DEFAULT_BOOTSTRAP)


def _chosen_bootstrap(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Who names a profile on the command line means it, whatever the environment says."""
    from ruslo.cli.arguments.profiles import chosen_by_flag

    source = None if param.name is None else ctx.get_parameter_source(param.name)
    by_environment = source is click.core.ParameterSource.ENVIRONMENT
    return default_bootstrap() if by_environment and chosen_by_flag() else value


def bootstrap_option(function: F) -> F:
    return click.option(
        "--bootstrap-server",
        "-b",
        "bootstrap",
        envvar="RUSLO_BOOTSTRAP",
        default=default_bootstrap,
        show_default=f"the profile's, or {DEFAULT_BOOTSTRAP}",
        show_envvar=True,
        callback=_chosen_bootstrap,
        metavar="HOST:PORT[,…]",
        help="One or more brokers to begin with.",
    )(function)


class Amount(click.FloatRange):
    """A number between its bounds: not ``nan``, which no bound stops, nor ``inf``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        amount = super().convert(value, param, ctx)
        if not math.isfinite(amount):
            self.fail(f"{value!r} is no number to count with; write one like 2.5", param, ctx)
        return amount


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


def broker_settings_callback(
    ctx: click.Context, param: click.Parameter, values: Sequence[str]
) -> dict[str, str]:
    """``KEY=VALUE`` words whose keys a broker knows. Files may have others, as Kafka allows."""
    settings = pairs_callback(ctx, param, values)
    if settings:
        from ruslo.config.broker import unknown_names

        for name, nearest in unknown_names(settings):
            fix = f"Did you mean {nearest}?" if nearest else "docs/configuration.md lists all properties."
            raise click.BadParameter(f"a broker has no property {name}. {fix}", ctx, param)
    return settings


def examples(*commands: str) -> str:
    """The epilog that every command has; ``\\b`` keeps click from refilling the lines."""
    return "\b\nExamples:\n" + "\n".join(f"  {command}" for command in commands)


LOG_FORMAT_KEY = "ruslo.log.format"
log_format_option = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    help="A line of text or a JSON object for each event; by default what ruslo.log.format says.",
)
