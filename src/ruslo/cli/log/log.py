"""``ruslo log``: work with the files of a log directory, without a broker."""

from __future__ import annotations

import click

from ruslo.cli.arguments.options import examples
from ruslo.cli.log.dump import dump
from ruslo.cli.log.repair import repair
from ruslo.cli.log.verify import verify


@click.group(
    short_help="Dump, verify and repair log segments on disk.",
    epilog=examples("ruslo log dump data/orders-0/00000000000000000000.log", "ruslo log verify data"),
)
def log() -> None:
    """Dump, verify and repair the files of a log directory, without a broker."""


for command in (dump, verify, repair):
    log.add_command(command)
