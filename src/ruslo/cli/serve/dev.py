"""``ruslo dev``: a broker or a cluster in the foreground, for development."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.console import console_options, start_console
from ruslo.cli.arguments.options import (
    LOG_FORMAT_KEY,
    broker_settings_callback,
    examples,
    log_format_option,
    log_level_option,
    output_option,
)
from ruslo.cli.serve.dev_nodes import LAST_PORT, DevOptions, bind_error, run_open, run_secured
from ruslo.cli.terminal.output import hint, print_json_line
from ruslo.model.errors import ConfigError

if TYPE_CHECKING:
    from ruslo.cli.serve.secured_cluster import SecuredCluster


@click.command(
    short_help="Run a development cluster in the foreground.",
    epilog=examples(
        "ruslo dev                           # one broker on 127.0.0.1:9092, with temporary data",
        "ruslo dev --port 0                  # any free port; printed in the first line",
        "ruslo dev --brokers 3               # a cluster on 127.0.0.1:9092 to 9094",
        "ruslo dev --data-dir ./ruslo-data --set num.partitions=3",
        "ruslo dev --secure                  # with TLS, users and ACLs",
    ),
)
@click.option("--brokers", type=click.IntRange(1), default=1, show_default=True, help="Number of brokers.")
@click.option(
    "--port",
    type=click.IntRange(0, LAST_PORT),
    default=9092,
    show_default=True,
    help="Port of the first broker; 0 takes a free port.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the data in this folder (default: a temporary folder).",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=broker_settings_callback,
    help="A broker property. Repeatable.",
)
@click.option(
    "--secure",
    is_flag=True,
    help="Use TLS, SCRAM and ACLs; create certificates, users and the property files of clients.",
)
@log_level_option("warning")
@log_format_option
@output_option
@console_options
def dev(
    brokers: int,
    port: int,
    data_dir: Path | None,
    settings: dict[str, str],
    secure: bool,
    log_level: str,
    log_format: str | None,
    output: str,
    console_port: int | None,
    no_console: bool,
) -> None:
    """Run a broker, or a cluster with --brokers N, until Ctrl-C. A web console runs beside it.

    When clients can connect, one line is printed: bootstrap.servers=HOST:PORT[,HOST:PORT…] (with -o json, an
    object with that key). Each broker of a cluster is a process, also a controller, on the next port.

    Metrics are at http://127.0.0.1:9404/metrics: 312 above the broker's port, or any free port. The console
    process starts with the first request of a browser.

    --secure creates the users admin, a super user, and alice, who needs ACLs. Their settings and passwords
    are in files of the folder security in the data folder, which further lines name; on a terminal, ready
    settings for Java, librdkafka, Python and Spark are printed, too. A restart with the same --data-dir keeps
    the certificate authority, the users and their passwords.
    """
    if log_format is not None:
        settings = {**settings, LOG_FORMAT_KEY: log_format}
    if "listeners" not in settings:
        _check_ports(port, brokers)
    with contextlib.ExitStack() as beside:
        folder = beside.enter_context(_data_folder(data_dir))
        if data_dir is not None:
            from ruslo.cli.serve.secured_cluster import check_data_folder

            check_data_folder(folder, secure, brokers)

        def announce(bootstrap: str, secured: SecuredCluster | None = None) -> None:
            _print_address(bootstrap, output, secured)
            client_file = None if secured is None else secured.write_console_file()
            console = None if no_console else start_console(bootstrap, console_port, hint, client_file)
            if console is not None:
                address = beside.enter_context(console).address
                hint(f"console: {address}" + ("" if secured is None else "   (log in as admin or alice)"))

        options = DevOptions(brokers, port, folder, settings, log_level)
        code = run_secured(options, announce) if secure else run_open(options, announce)
    raise click.exceptions.Exit(code)


def _check_ports(first: int, brokers: int) -> None:
    """Fail early: the broker's own error would name 'listeners', which the user has not set."""
    if first + brokers - 1 > LAST_PORT:
        raise click.UsageError(
            f"{brokers} brokers need the ports {first} to {first + brokers - 1}, but the highest port is "
            f"{LAST_PORT}. Choose a lower --port."
        )
    for port in range(first, first + brokers) if first else ():
        problem = bind_error(port)
        if problem is None:
            continue
        why = (
            f"Port {port} is in use by another process, maybe another 'ruslo dev'"
            if problem.errno == errno.EADDRINUSE
            else f"Cannot listen on port {port}: {os.strerror(problem.errno or 0).lower()}"
        )
        raise ConfigError(f"{why}. Choose another port, such as --port 19092, or --port 0 for any free port")


def _print_address(bootstrap: str, output: str, secured: SecuredCluster | None) -> None:
    if secured is not None:
        from ruslo.cli.serve.client_help import file_lines, files_as_json, terminal_help
    if output == "json":
        files = {} if secured is None else files_as_json(secured)
        print_json_line({"bootstrap.servers": bootstrap, **files})
    else:
        click.echo(f"bootstrap.servers={bootstrap}")
        for line in () if secured is None else file_lines(secured):
            click.echo(line)
    sys.stdout.flush()
    if secured is not None:
        hint(terminal_help(secured, bootstrap))
        return
    at_default = bootstrap.split(",")[0] == "127.0.0.1:9092"
    hint("Try: ruslo topic create orders" + ("" if at_default else f" -b {bootstrap}") + "   (Ctrl-C stops)")


@contextlib.contextmanager
def _data_folder(chosen: Path | None) -> Iterator[Path]:
    if chosen is not None:
        yield chosen.resolve()
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="ruslo-dev-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
