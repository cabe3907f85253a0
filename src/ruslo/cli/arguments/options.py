"""Options that several commands share."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ruslo.cli.terminal.output_format import F as F
from ruslo.cli.terminal.output_format import output_option as output_option

T = TypeVar("T")

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


def default_bootstrap() -> str:
    from ruslo.cli.arguments.client_settings import given_settings
    from ruslo.cli.arguments.profiles import BOOTSTRAP, active_profile

    given = given_settings().get(BOOTSTRAP)
    if given is not None:
        return given
    profile = active_profile()
    return DEFAULT_BOOTSTRAP if profile is None else profile.settings.get(BOOTSTRAP, DEFAULT_BOOTSTRAP)


def _chosen_bootstrap(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """--profile and --command-config on the command line take precedence over RUSLO_BOOTSTRAP."""
    from ruslo.cli.arguments.client_settings import given_settings
    from ruslo.cli.arguments.profiles import BOOTSTRAP, chosen_by_flag

    source = None if param.name is None else ctx.get_parameter_source(param.name)
    by_environment = source is click.core.ParameterSource.ENVIRONMENT
    by_flag = chosen_by_flag() or BOOTSTRAP in given_settings()
    return default_bootstrap() if by_environment and by_flag else value


def bootstrap_option(function: F) -> F:
    """The address of the cluster, and how to connect to it: every command with a connection has these."""
    function = click.option(
        "-X",
        "--property",
        multiple=True,
        is_eager=True,
        expose_value=False,
        metavar="KEY=VALUE",
        callback=_keep_properties,
        help="A client property, e.g. -X security.protocol=SSL; secrets are @FILE, env:VARIABLE or prompt. "
        "Repeatable.",
    )(function)
    function = click.option(
        "--command-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        is_eager=True,
        expose_value=False,
        callback=_keep_file,
        help="Property file of a client, as for Kafka's tools.",
    )(function)
    return click.option(
        "--bootstrap-server",
        "-b",
        "bootstrap",
        envvar="RUSLO_BOOTSTRAP",
        default=default_bootstrap,
        show_default=f"from the profile, or {DEFAULT_BOOTSTRAP}",
        show_envvar=True,
        callback=_chosen_bootstrap,
        metavar="HOST:PORT[,…]",
        help="Brokers to connect to first.",
    )(function)


def _keep_properties(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> None:
    from ruslo.cli.arguments.client_settings import keep_properties

    keep_properties(ctx, param, values)


def _keep_file(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
    from ruslo.cli.arguments.client_settings import keep_file

    keep_file(ctx, param, value)


class Amount(click.FloatRange):
    """A finite number within a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        amount = super().convert(value, param, ctx)
        if not math.isfinite(amount):
            self.fail(f"{value!r} is not a finite number. Write one like 2.5.", param, ctx)
        return amount


def yes_option(function: F) -> F:
    return click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")(function)


def confirm(question: str, yes: bool) -> None:
    """Ask for confirmation of a destructive change; without a terminal, ``--yes`` is required."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Add --yes to confirm: stdin is not a terminal.")
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)
        raise click.exceptions.Exit(130) from None
    if not agreed:
        click.echo("Cancelled. Nothing was changed.", err=True)
        raise click.exceptions.Exit(1)


def parsed(parse: Callable[[str], T]) -> Callable[[click.Context, click.Parameter, str | None], T | None]:
    """A callback that parses the value of an option; ValueError becomes a usage error."""

    def callback(ctx: click.Context, param: click.Parameter, value: str | None) -> T | None:
        try:
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return callback


def pairs_callback(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """Parse ``KEY=VALUE`` arguments into a dict."""
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
    """Parse ``KEY=VALUE`` arguments whose keys must be broker properties."""
    settings = pairs_callback(ctx, param, values)
    if settings:
        from ruslo.config.broker import unknown_names

        for name, nearest in unknown_names(settings):
            fix = f"Did you mean {nearest}?" if nearest else "See docs/configuration.md for all properties."
            raise click.BadParameter(f"Unknown broker property {name}. {fix}", ctx, param)
    return settings


def examples(*commands: str) -> str:
    """The epilog of a command; ``\\b`` keeps click from rewrapping the lines."""
    return "\b\nExamples:\n" + "\n".join(f"  {command}" for command in commands)


LOG_FORMAT_KEY = "ruslo.log.format"
log_format_option = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    help="Log text lines or JSON objects (default: ruslo.log.format).",
)
compression_option = click.option(
    "-z",
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="Compression codec.",
)


def acks_option(*choices: str) -> Callable[[F], F]:
    return click.option(
        "--acks",
        type=click.Choice(choices),
        default="all",
        show_default=True,
        help="Required acknowledgements.",
    )


def log_level_option(default: str) -> Callable[[F], F]:
    return click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default=default,
        show_default=True,
        help="Lowest level logged to stderr.",
    )
