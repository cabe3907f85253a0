"""``ruslo cluster features describe``: supported and finalized levels."""

from __future__ import annotations

import click

from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.cluster.features.levels import shown_level
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_json, print_table


@click.command(
    epilog=examples("ruslo cluster features describe", "ruslo cluster features describe --node-id 2 -o json")
)
@bootstrap_option
@click.option(
    "--node-id", type=click.IntRange(0), metavar="ID", help="The broker to query (default: any of them)."
)
@output_option
def describe(bootstrap: str, node_id: int | None, output: str) -> None:
    """Show the levels that a broker supports and those that are finalized in the cluster."""
    found = with_admin(bootstrap, lambda admin: admin.features.describe(node_id))
    if output == "json":
        print_json(
            {
                "epoch": found.epoch,
                "features": {
                    each.name: {
                        "finalized": each.finalized,
                        "min": each.supported_min,
                        "max": each.supported_max,
                    }
                    for each in found.features
                },
            }
        )
        return
    print_table(
        ["FEATURE", "FINALIZED", "MIN", "MAX"],
        [
            (
                each.name,
                shown_level(each.name, each.finalized),
                shown_level(each.name, each.supported_min),
                shown_level(each.name, each.supported_max),
            )
            for each in found.features
        ],
    )
    click.echo(f"The finalized levels are those of metadata offset {found.epoch}.", err=True)
