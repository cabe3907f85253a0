"""``ruslo share replay``: send the records of dead letters again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.completion import complete_share_groups
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_json

if TYPE_CHECKING:
    from ruslo.cli.share.replaying import Replayed
    from ruslo.client.admin.admin import Admin


@click.command(
    epilog=examples(
        "ruslo share replay invoices --dry-run",
        "ruslo share replay invoices",
        "ruslo share replay invoices --to orders-repaired -o json",
    )
)
@click.argument("name", metavar="GROUP", shell_complete=complete_share_groups)
@bootstrap_option
@click.option("--to", metavar="TOPIC", help="Send to this topic. Default: to the topic of each record.")
@click.option("--dry-run", is_flag=True, help="Only count the records.")
@output_option
def replay(name: str, bootstrap: str, to: str | None, dry_run: bool, output: str) -> None:
    """Send the records of a share group's dead letters again, with the headers that they had.

    The dead letters are those in the group's errors.deadletterqueue.topic.name. Progress is committed with
    the records, as offsets of the group ruslo-replay-GROUP: a repeated replay sends only what is new. Other
    groups that read the topic get the records again, too.
    """

    async def run(admin: Admin) -> Replayed:
        from ruslo.cli.share.replaying import Replay

        return await Replay(admin, name, to, dry_run=dry_run).run()

    result = with_admin(bootstrap, run)
    if output == "json":
        print_json(
            {
                "group_id": name,
                "dead_letter_topic": result.dead_letter_topic,
                "dry_run": dry_run,
                "replayed": dict(result.records),
                "lost": [{**tp._asdict(), "offset": offset} for tp, offset in result.lost],
            }
        )
    else:
        _print(result, dry_run)
    if result.lost:
        raise click.exceptions.Exit(1)


def _print(result: Replayed, dry_run: bool) -> None:
    verb = "would be sent" if dry_run else "sent"
    for topic, count in sorted(result.records.items()):
        click.echo(f"{verb} to {topic}: {count} record{'' if count == 1 else 's'}")
    if not result.records:
        click.echo(f"{result.dead_letter_topic} has no dead letters to replay.")
    for tp, offset in result.lost:
        click.echo(f"{tp} has no record at offset {offset} any more, and its dead letter no copy", err=True)
