"""``ruslo dev``: a broker in the foreground, for development."""

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
    output_option,
)
from ruslo.cli.terminal.output import hint, print_json_line
from ruslo.model.errors import ConfigError

LOOPBACK = "127.0.0.1"
METRICS_KEY = "ruslo.metrics.listener"
METRICS_PORT_STEP = 312
LAST_PORT = 65535


@click.command(
    short_help="Run a broker for development in the foreground.",
    epilog=examples(
        "ruslo dev                           # at 127.0.0.1:9092, its data vanish with it",
        "ruslo dev --port 0                  # any free port; the first line tells which",
        "ruslo dev --brokers 3               # a cluster at 127.0.0.1:9092 to 9094",
        "ruslo dev --data-dir ./ruslo-data --set num.partitions=3",
    ),
)
@click.option("--brokers", type=click.IntRange(1), default=1, show_default=True, help="How many brokers.")
@click.option(
    "--port", type=click.IntRange(0, LAST_PORT), default=9092, show_default=True, help="0 takes any free one."
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the data here for the next time.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=broker_settings_callback,
    help="A property of the broker, by Kafka's name. May be repeated.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="What is logged to stderr.",
)
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
    """Run a broker, or a cluster of several, until Ctrl-C; with a web console beside it.

    Prints one line, bootstrap.servers=HOST:PORT[,HOST:PORT…] (or an object with that key, with -o json), when
    clients may connect. Each broker of a cluster is a process of its own, controller too, on the ports that
    follow the first. Metrics are at http://127.0.0.1:9404/metrics: on the port 312 above each broker's, or on
    any free one. The console's process starts when a browser first asks for it.
    """
    if log_format is not None:
        settings = {**settings, LOG_FORMAT_KEY: log_format}
    if "listeners" not in settings:
        _check_ports(port, brokers)
    with contextlib.ExitStack() as beside:

        def announce(bootstrap: str) -> None:
            _show_address(bootstrap, output)
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
    """Until it is told to stop; the exit code."""
    if brokers > 1:
        with _data_folder(data_dir) as folder:
            return _run_cluster(brokers, port, folder, settings, log_level, announce)
    from ruslo.broker.node.garbage import collection_put_off

    with collection_put_off():
        from ruslo.broker.node.node import run
    from ruslo.broker.node.log_lines import log_to_stderr
    from ruslo.config.broker import BrokerConfig
    from ruslo.testing.single_node import format_single_node, single_node_properties

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
    from ruslo.testing.cluster_layout import NodePorts, cluster_properties, format_cluster, free_ports

    broker_ports = list(range(port, port + brokers)) if port else free_ports(brokers)
    ports = [NodePorts(*each) for each in zip(broker_ports, free_ports(brokers), strict=True)]
    nodes = [
        {**each, METRICS_KEY: _metrics_address(at.broker if port else 0), **settings}
        for each, at in zip(cluster_properties(folder, ports, overrides=settings), ports, strict=True)
    ]
    format_cluster([BrokerConfig.from_properties(each) for each in nodes])
    return NodeProcesses(nodes, log_level).run(lambda addresses: announce(",".join(addresses)))


def _check_ports(first: int, brokers: int) -> None:
    """Before anything is started: the broker itself would name 'listeners', which nobody here has written."""
    if first + brokers - 1 > LAST_PORT:
        raise click.UsageError(
            f"{brokers} brokers need the ports {first} to {first + brokers - 1}, but the last one is "
            f"{LAST_PORT}: choose a lower one with --port."
        )
    for port in range(first, first + brokers) if first else ():
        problem = _problem_with(port)
        if problem is None:
            continue
        why = (
            f"port {port} is taken: another process listens at {LOOPBACK}:{port}, maybe another 'ruslo dev'"
            if problem.errno == errno.EADDRINUSE
            else f"port {port} cannot be used: {os.strerror(problem.errno or 0).lower()}"
        )
        raise ConfigError(f"{why}; choose another one, as --port 19092, or --port 0 for any that is free")


def _metrics_address(broker_port: int) -> str:
    """For 9092 it is 9404, as of a node that is served; any free port where that one is taken."""
    port = broker_port + METRICS_PORT_STEP if broker_port else 0
    if port > LAST_PORT or _problem_with(port) is not None:
        port = 0
    return f"{LOOPBACK}:{port}"


def _problem_with(port: int) -> OSError | None:
    """Why nobody can listen there at present."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            return error
    return None


def _show_address(bootstrap: str, output: str) -> None:
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
