"""``ruslo serve``: run a node from a Kafka property file."""

from __future__ import annotations

from pathlib import Path

import click

from ruslo.cli.arguments.options import LOG_FORMAT_KEY, examples, log_format_option, log_level_option
from ruslo.cli.arguments.property_file import load_config, load_properties, property_file_options


@click.command(
    short_help="Run a node from a server.properties file.",
    epilog=examples(
        "ruslo storage format -c server.properties --standalone",
        "ruslo serve -c server.properties",
        "ruslo serve -c server.properties --set log.dirs=/data/a,/data/b --log-level warning",
        "ruslo serve -c server.properties --cores 4 --log-format json",
    ),
)
@property_file_options
@log_level_option("info")
@log_format_option
@click.option(
    "--cores",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Number of brokers to run on this host, one process each.",
)
def serve(path: Path, settings: dict[str, str], log_level: str, log_format: str | None, cores: int) -> None:
    """Run a node in the foreground until SIGTERM or Ctrl-C; it logs to stderr.

    Format its log directories first with 'ruslo storage format' or with Kafka's tool.

    --cores N runs N brokers: the node of the file, and N-1 more whose IDs are 1000, 2000, … higher, on the
    following ports and in sibling directories. All have the host as their rack, so that the replicas of a
    partition are on different hosts. A broker that crashes is restarted.
    """
    if log_format is not None:
        settings = {**settings, LOG_FORMAT_KEY: log_format}
    if cores > 1:
        raise click.exceptions.Exit(_serve_cores(path, settings, log_level, cores))
    from ruslo.broker.node.garbage import collection_disabled

    with collection_disabled():
        from ruslo.broker.node.node import run
    from ruslo.broker.node.log_lines import log_to_stderr

    config = load_config(path, settings)
    log_to_stderr(log_level, config.str(LOG_FORMAT_KEY), config.node_id)
    raise click.exceptions.Exit(run(config, lambda node: _report_ready(node.bootstrap)))


def _serve_cores(path: Path, settings: dict[str, str], log_level: str, cores: int) -> int:
    import socket

    from ruslo.broker.node.cores import core_properties
    from ruslo.broker.node.format import format_storage
    from ruslo.broker.node.identity import check_formatted
    from ruslo.broker.node.log_lines import log_to_stderr
    from ruslo.cli.serve.node_processes import NodeProcesses
    from ruslo.config.broker import BrokerConfig

    nodes = core_properties(load_properties(path, settings), cores, socket.gethostname())
    first, *further = [BrokerConfig.from_properties(each) for each in nodes]
    log_to_stderr(log_level, first.str(LOG_FORMAT_KEY))
    check_formatted(first)
    cluster_id = format_storage(first, ignore_formatted=True).cluster_id
    for config in further:
        format_storage(config, cluster_id=cluster_id, ignore_formatted=True)
    return NodeProcesses(nodes, log_level).run(lambda addresses: _report_ready(",".join(addresses)))


def _report_ready(bootstrap: str) -> None:
    import logging

    from ruslo.cli.serve.service_manager import READY, notify

    logging.getLogger("ruslo").info("ready: bootstrap.servers=%s", bootstrap)
    notify(READY)
