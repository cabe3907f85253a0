"""``ruslo cluster reassign``: move replicas to other brokers."""

from __future__ import annotations

import click

from ruslo.cli.arguments.options import examples
from ruslo.cli.cluster.reassign.cancel import cancel
from ruslo.cli.cluster.reassign.execute import execute
from ruslo.cli.cluster.reassign.log_dir import log_dir
from ruslo.cli.cluster.reassign.plan import plan
from ruslo.cli.cluster.reassign.status import status


@click.group(
    "reassign",
    short_help="Move replicas to other brokers.",
    epilog=examples(
        "ruslo cluster reassign plan --drain 3 > plan.json",
        "ruslo cluster reassign execute plan.json --throttle 50MB --wait",
        "ruslo cluster reassign status",
    ),
)
def reassign() -> None:
    """Move replicas to other brokers: plan, execute, show status, cancel."""


for command in (plan, execute, status, cancel, log_dir):
    reassign.add_command(command)
