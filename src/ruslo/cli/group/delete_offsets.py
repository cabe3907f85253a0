"""``ruslo group delete-offsets``: delete committed offsets of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.completion import complete_groups
from ruslo.cli.arguments.options import bootstrap_option, confirm, examples, output_option, yes_option
from ruslo.cli.arguments.partition_scope import Scope, scopes_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_json
from ruslo.client.views.partition_lists import shown_partitions

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.client.admin.group_offsets import Outcomes


@click.command(
    "delete-offsets",
    epilog=examples(
        "ruslo group delete-offsets billing --topic orders",
        "ruslo group delete-offsets billing --topic orders:0-3 --topic payments --yes",
        "ruslo group delete-offsets billing --all-topics",
    ),
)
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@bootstrap_option
@scopes_option("Partitions")
@click.option("--all-topics", is_flag=True, help="All topics that the group has committed offsets for.")
@yes_option
@output_option
def delete_offsets(
    name: str, bootstrap: str, scopes: list[Scope], all_topics: bool, yes: bool, output: str
) -> None:
    """Delete committed offsets of a group. Its consumers then start at auto.offset.reset."""
    from ruslo.cli.offsets.group_types import or_name_the_command
    from ruslo.cli.offsets.reset_scope import committed_in
    from ruslo.cli.terminal.errors import fail_for

    if bool(scopes) == all_topics:
        raise click.UsageError(
            "Choose the partitions: use either --topic TOPIC[:PARTITIONS] or --all-topics."
        )
    what = "all topics" if all_topics else ", ".join(scope.topic for scope in scopes)
    confirm(f"Delete the offsets that {name} has committed for {what}?", yes)

    async def run(admin: Admin) -> Outcomes:
        partitions = committed_in(name, await admin.group_offsets.fetch(name), scopes)
        return await admin.group_offsets.delete(name, partitions)

    results = with_admin(
        bootstrap, lambda admin: or_name_the_command(admin, name, "delete-offsets", run(admin))
    )
    outcomes = {partition: results[partition] for partition in sorted(results)}
    if output == "json":
        print_json(
            [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "status": "failed" if error else "deleted",
                    "error": error.code.name if error else None,
                }
                for partition, error in outcomes.items()
            ]
        )
    else:
        deleted = [partition for partition, error in outcomes.items() if error is None]
        if deleted:
            click.echo(f"deleted offsets of {name}: {shown_partitions(deleted)}")
    fail_for({partition: error for partition, error in outcomes.items() if error})
