"""``ruslo cluster features``: the feature levels of a cluster."""

from __future__ import annotations

import click

from ruslo.cli.arguments.options import examples
from ruslo.cli.cluster.features.change import disable, downgrade, upgrade
from ruslo.cli.cluster.features.describe import describe
from ruslo.cli.cluster.features.lookup import feature_dependencies, version_mapping


@click.group(
    "features",
    short_help="Show and change feature levels.",
    epilog=examples(
        "ruslo cluster features describe",
        "ruslo cluster features upgrade --release-version 4.3 --dry-run",
        "ruslo cluster features version-mapping",
    ),
)
def features() -> None:
    """Show and change the feature levels of the cluster, metadata.version among them (KIP-584)."""


for command in (describe, upgrade, downgrade, disable, version_mapping, feature_dependencies):
    features.add_command(command)
