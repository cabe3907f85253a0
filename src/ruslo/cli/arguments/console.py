"""The web console that ``ruslo dev`` and ``ruslo demo`` run beside their cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import F

if TYPE_CHECKING:
    from pathlib import Path

    from ruslo.console.on_demand import ConsoleOnDemand


def console_options(function: F) -> F:
    function = click.option(
        "--console-port",
        type=click.IntRange(0, 65535),
        help="Port of the web console.  [default: 8090, or any free port]",
    )(function)
    return click.option("--no-console", is_flag=True, help="Do not start the web console.")(function)


def start_console(
    bootstrap: str, port: int | None, report: Callable[[str], None], client_file: Path | None = None
) -> ConsoleOnDemand | None:
    """Start the console. If that fails, report why and return None: the cluster runs without it.

    ``client_file`` is a property file with a client's settings of a secured cluster, without a user.
    """
    from ruslo.console.on_demand import ConsoleOnDemand
    from ruslo.console.serving import require_packages
    from ruslo.model.errors import ConfigError

    try:
        require_packages()
        return ConsoleOnDemand(bootstrap, port, client_file)
    except ConfigError as error:
        report(f"The console did not start: {error}")
        return None
