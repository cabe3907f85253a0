"""``ruslo cluster``: nodes, controller quorum, features, replica placement and leaders."""

from __future__ import annotations

import click

from ruslo.cli.arguments.options import examples
from ruslo.cli.cluster.broker import broker
from ruslo.cli.cluster.brokers import brokers
from ruslo.cli.cluster.elect import elect
from ruslo.cli.cluster.features.features import features
from ruslo.cli.cluster.health import health
from ruslo.cli.cluster.info import info
from ruslo.cli.cluster.quorum import quorum
from ruslo.cli.cluster.reassign.reassign import reassign
from ruslo.cli.cluster.topics_at_risk import topics_at_risk
from ruslo.cli.cluster.voter import voter


@click.group(
    short_help="Show nodes and health, move replicas, elect leaders.",
    epilog=examples(
        "ruslo cluster info",
        "ruslo cluster health --wait 30",
        "ruslo cluster topics-at-risk",
        "ruslo cluster reassign plan --drain 3 > plan.json",
    ),
)
def cluster() -> None:
    """Show nodes, quorum and partitions at risk; move replicas, elect leaders, change voters and features."""


for command in (info, health, quorum, brokers, topics_at_risk, reassign, elect, voter, broker, features):
    cluster.add_command(command)
