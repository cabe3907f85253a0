"""``ruslo share config``: the settings of a share group."""

from __future__ import annotations

import click

from ruslo.cli.arguments.completion import complete_share_groups
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_json, print_table

_PREFIXES = ("share.", "ruslo.share.", "errors.deadletterqueue.")


@click.command(
    epilog=examples(
        "ruslo share config invoices",
        "ruslo config set --group invoices share.auto.offset.reset=earliest share.delivery.count.limit=10",
    )
)
@click.argument("name", metavar="GROUP", shell_complete=complete_share_groups)
@bootstrap_option
@output_option
def config(name: str, bootstrap: str, output: str) -> None:
    """Show the settings of a share group, which 'ruslo config set --group GROUP' changes.

    \b
    share.auto.offset.reset             where a new group starts: latest, earliest or a duration
    share.record.lock.duration.ms       how long a consumer may hold a record
    share.delivery.count.limit          deliveries of a record before it is archived
    share.partition.max.record.locks    records in flight in a partition
    share.isolation.level               read_committed leaves out records of aborted transactions
    share.renew.acknowledge.enable      whether consumers may extend a lock
    errors.deadletterqueue.topic.name   where records are copied that cannot be delivered
    """
    from ruslo.client.admin.configs import Resource

    found = with_admin(bootstrap, lambda admin: admin.configs.describe(Resource.group(name)))
    entries = sorted((each for each in found if each.name.startswith(_PREFIXES)), key=lambda each: each.name)
    if output == "json":
        print_json(
            [{"name": each.name, "value": each.value, "source": each.source.name.lower()} for each in entries]
        )
        return
    print_table(
        ["KEY", "VALUE", "SOURCE"],
        [(each.name, each.value, each.source.name.lower().replace("_", "-")) for each in entries],
    )
    click.echo(f"Change them: ruslo config set --group {name} KEY=VALUE", err=True)
