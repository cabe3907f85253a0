"""``-c server.properties`` and ``--set KEY=VALUE``: the configuration of a node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import F, broker_settings_callback

if TYPE_CHECKING:
    from ruslo.config.broker import BrokerConfig


def property_file_options(function: F) -> F:
    function = click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        callback=broker_settings_callback,
        help="Override a property of the file. Repeatable.",
    )(function)
    return click.option(
        "-c",
        "--config",
        "path",
        required=True,
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Property file of the node, as for Apache Kafka.",
    )(function)


def load_properties(path: Path, settings: dict[str, str]) -> dict[str, str]:
    from ruslo.config.properties import decode_properties, parse_properties

    return {**parse_properties(decode_properties(path.read_bytes())), **settings}


def load_config(path: Path, settings: dict[str, str]) -> BrokerConfig:
    from ruslo.config.broker import BrokerConfig

    return BrokerConfig.from_properties(load_properties(path, settings))
