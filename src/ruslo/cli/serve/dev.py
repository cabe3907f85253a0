"""``ruslo dev``: a broker or a cluster in the foreground, for development."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

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
from ruslo.cli.terminal.output import hint, print_json_line
from ruslo.model.errors import ConfigError

LOOPBACK = "127.0.0.1"
METRICS_KEY = "ruslo.metrics.listener"
METRICS_PORT_OFFSET = 312
LAST_PORT = 65535


@click.command(
    short_help="Run a development cluster in the foreground.",
    epilog=examples(
        "ruslo dev                           # one broker on 127.0.0.1:9092, with temporary data",
        "ruslo dev --port 0                  # any free port; printed in the first line",
        "ruslo dev --brokers 3               # a cluster on 127.0.0.1:9092 to 9094",
        "ruslo dev --data-dir ./ruslo-data --set num.partitions=3",
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
@log_level_option("warning")
@log_format_option
@output_option
@console_options
def dev(
    brokers: int,
    port: int,
    data_dir: Path | None,
    settings: dict[str, str],
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
    """
    if log_format is not None:
        settings = {**settings, LOG_FORMAT_KEY: log_format}
    if "listeners" not in settings:
        _check_ports(port, brokers)
    with contextlib.ExitStack() as beside:

        def announce(bootstrap: str) -> None:
            _print_address(bootstrap, output)
            console = None if no_console else start_console(bootstrap, console_port, hint)
            if console is not None:
                hint(f"console: {beside.enter_context(console).address}")

        code = _run(brokers, port, data_dir, settings, log_level, announce)
    raise click.exceptions.Exit(code)


def _run(
    brokers: int,
    port: int,
    data_dir: Path | None,
    settings: dict[str, str],
    log_level: str,
    announce: Callable[[str], None],
) -> int:
    """Run until a signal; return the exit code."""
    if brokers > 1:
        with _data_folder(data_dir) as folder:
            return _run_cluster(brokers, port, folder, settings, log_level, announce)
    from ruslo.broker.node.garbage import collection_disabled

    with collection_disabled():
        from ruslo.broker.node.node import run
    from ruslo.broker.node.log_lines import log_to_stderr
    from ruslo.config.broker import BrokerConfig
    from ruslo.testing.cluster_layout import format_single_node, single_node_properties

    settings = {METRICS_KEY: _metrics_address(port), **settings}
    with _data_folder(data_dir) as folder:
        config = BrokerConfig.from_properties(single_node_properties(folder, port=port, overrides=settings))
        log_to_stderr(log_level, config.str(LOG_FORMAT_KEY))
        format_single_node(config)
        return run(config, lambda node: announce(node.bootstrap))


def _run_cluster(
    brokers: int,
    port: int,
    folder: Path,
    settings: dict[str, str],
    log_level: str,
    announce: Callable[[str], None],
) -> int:
    from ruslo.cli.serve.node_processes import NodeProcesses
    from ruslo.config.broker import BrokerConfig
    from ruslo.testing.cluster_layout import NodePorts, cluster_properties, format_cluster
    from ruslo.testing.ports import reserve_ports

    broker_ports = list(range(port, port + brokers)) if port else reserve_ports(brokers)
    ports = [NodePorts(*each) for each in zip(broker_ports, reserve_ports(brokers), strict=True)]
    nodes = [
        {**each, METRICS_KEY: _metrics_address(at.broker if port else 0), **settings}
        for each, at in zip(cluster_properties(folder, ports, overrides=settings), ports, strict=True)
    ]
    format_cluster([BrokerConfig.from_properties(each) for each in nodes])
    return NodeProcesses(nodes, log_level).run(lambda addresses: announce(",".join(addresses)))


def _check_ports(first: int, brokers: int) -> None:
    """Fail early: the broker's own error would name 'listeners', which the user has not set."""
    if first + brokers - 1 > LAST_PORT:
        raise click.UsageError(
            f"{brokers} brokers need the ports {first} to {first + brokers - 1}, but the highest port is "
            f"{LAST_PORT}. Choose a lower --port."
        )
    for port in range(first, first + brokers) if first else ():
        problem = _bind_error(port)
        if problem is None:
            continue
        why = (
            f"Port {port} is in use by another process, maybe another 'ruslo dev'"
            if problem.errno == errno.EADDRINUSE
            else f"Cannot listen on port {port}: {os.strerror(problem.errno or 0).lower()}"
        )
        raise ConfigError(f"{why}. Choose another port, such as --port 19092, or --port 0 for any free port")


def _metrics_address(broker_port: int) -> str:
    """Port 9404 for broker port 9092, as with ``ruslo serve``; a free port if that one is in use."""
    port = broker_port + METRICS_PORT_OFFSET if broker_port else 0
    if port > LAST_PORT or _bind_error(port) is not None:
        port = 0
    return f"{LOOPBACK}:{port}"


def _bind_error(port: int) -> OSError | None:
    """The error of listening on the port, if any."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            return error
    return None


def _print_address(bootstrap: str, output: str) -> None:
    if output == "json":
        print_json_line({"bootstrap.servers": bootstrap})
    else:
        click.echo(f"bootstrap.servers={bootstrap}")
    sys.stdout.flush()
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
