"""The console beside a cluster that a command runs in the foreground."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import F

if TYPE_CHECKING:
    from ruslo.console.on_demand import ConsoleOnDemand


def console_options(function: F) -> F:
    function = click.option(
        "--console-port",
        type=click.IntRange(0, 65535),
        help="Where the web console listens.  [default: 8090, or any free one]",
    )(function)
    return click.option("--no-console", is_flag=True, help="Without the web console.")(function)


def start_console(bootstrap: str, port: int | None, say: Callable[[str], None]) -> ConsoleOnDemand | None:
    """Says why there is none, if so: that must not keep the cluster from running."""
    from ruslo.console.on_demand import ConsoleOnDemand
    from ruslo.console.serving import require_packages
    from ruslo.model.errors import ConfigError

    try:
        require_packages()
        return ConsoleOnDemand(bootstrap, port)
    except ConfigError as error:
        say(f"no console: {error}")
        return None
