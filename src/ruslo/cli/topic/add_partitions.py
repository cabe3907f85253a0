"""``ruslo topic add-partitions``: add partitions to a topic."""

from __future__ import annotations

import click

from ruslo.cli.arguments.completion import complete_topics
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_json


@click.command("add-partitions", epilog=examples("ruslo topic add-partitions orders --total 12"))
@click.argument("name", shell_complete=complete_topics)
@bootstrap_option
@click.option("--total", type=click.IntRange(1), required=True, help="New number of partitions.")
@click.option("--validate-only", is_flag=True, help="Validate the request without adding partitions.")
@output_option
def add_partitions(name: str, bootstrap: str, total: int, validate_only: bool, output: str) -> None:
    """Add partitions to a topic. Keys may map to other partitions afterwards."""
    with_admin(bootstrap, lambda admin: admin.topics.add_partitions(name, total, validate_only=validate_only))
    if output == "json":
        print_json({"name": name, "partitions": total, "validate_only": validate_only})
    else:
        click.echo(f"{name} {'can have' if validate_only else 'has'} {total} partitions")
