"""``ruslo serve``: a node from Kafka's own property file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ruslo.cli.options import examples, pairs_callback

if TYPE_CHECKING:
    from ruslo.broker.node import Node
    from ruslo.config.broker import BrokerConfig


@click.command(
    short_help="Run a node from a server.properties file.",
    epilog=examples(
        "ruslo storage format -c server.properties --standalone",
        "ruslo serve -c server.properties",
        "ruslo serve -c server.properties --set log.dirs=/data/a,/data/b --log-level warning",
    ),
)
@click.option(
    "-c",
    "--config",
    "path",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A property file as Apache Kafka reads it.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=pairs_callback,
    help="Overrides the file. May be repeated.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="What is logged to stderr.",
)
def serve(path: Path, settings: dict[str, str], log_level: str) -> None:
    """Run a node in the foreground until SIGTERM or Ctrl-C; logs go to stderr.

    Its log directories must have been prepared by 'ruslo storage format' (or by Kafka's own tool).
    """
    from ruslo.broker.garbage import collection_put_off

    with collection_put_off():
        from ruslo.broker.node import run
    from ruslo.cli.node_logging import log_to_stderr

    config = load_config(path, settings)
    log_to_stderr(log_level)
    raise click.exceptions.Exit(run(config, _announce))


def load_config(path: Path, settings: dict[str, str]) -> BrokerConfig:
    from ruslo.config.broker import BrokerConfig
    from ruslo.config.properties import decode_properties, parse_properties

    return BrokerConfig.from_properties(
        {**parse_properties(decode_properties(path.read_bytes())), **settings}
    )


def _announce(node: Node) -> None:
    import logging

    logging.getLogger("ruslo").info("ready: bootstrap.servers=%s", node.bootstrap)
