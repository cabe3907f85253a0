"""``ruslo share delete-offsets``: delete the offsets of topics of a share group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.completion import complete_share_groups
from ruslo.cli.arguments.options import bootstrap_option, confirm, examples, output_option, yes_option
from ruslo.cli.offsets.group_types import or_name_the_command
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_json

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.model.errors import KafkaError


@click.command(
    "delete-offsets",
    epilog=examples(
        "ruslo share delete-offsets invoices --topic orders",
        "ruslo share delete-offsets invoices --topic orders --topic payments --yes",
        "ruslo share delete-offsets invoices --all-topics",
    ),
)
@click.argument("name", metavar="GROUP", shell_complete=complete_share_groups)
@bootstrap_option
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="A topic. Repeatable.")
@click.option("--all-topics", is_flag=True, help="All topics that the group has offsets of.")
@yes_option
@output_option
def delete_offsets(
    name: str, bootstrap: str, topics: tuple[str, ...], all_topics: bool, yes: bool, output: str
) -> None:
    """Delete the offsets of topics, with the state of their records.

    The group must have no members. Its next consumers start at share.auto.offset.reset.
    """
    from ruslo.cli.terminal.errors import fail_for

    if bool(topics) == all_topics:
        raise click.UsageError("Choose the topics: use either --topic TOPIC or --all-topics.")
    what = "all topics" if all_topics else ", ".join(topics)
    confirm(f"Delete the offsets of {name} in {what}?", yes)

    async def run(admin: Admin) -> dict[str, KafkaError | None]:
        chosen = topics or tuple({tp.topic for tp in await admin.share_group_offsets.fetch(name)})
        return await admin.share_group_offsets.delete(name, chosen)

    results = with_admin(
        bootstrap, lambda admin: or_name_the_command(admin, name, "delete-offsets", run(admin))
    )
    if output == "json":
        print_json(
            [
                {
                    "topic": topic,
                    "status": "failed" if error else "deleted",
                    "error": error.code.name if error else None,
                }
                for topic, error in sorted(results.items())
            ]
        )
    else:
        deleted = sorted(topic for topic, error in results.items() if error is None)
        if deleted:
            click.echo(f"deleted offsets of {name}: {' '.join(deleted)}")
    fail_for({topic: error for topic, error in sorted(results.items()) if error})
