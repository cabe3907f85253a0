"""``ruslo share offsets``: start offsets and lag of a share group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.completion import complete_share_groups
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.arguments.partition_scope import Scope, scopes_option
from ruslo.cli.offsets.group_types import or_name_the_command
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint, print_json, print_table

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.client.admin.share_group_offsets import ShareOffsets
    from ruslo.model.topics import TopicPartition


@click.command(
    epilog=examples("ruslo share offsets invoices", "ruslo share offsets invoices --topic orders:0-3 -o json")
)
@click.argument("name", metavar="GROUP", shell_complete=complete_share_groups)
@bootstrap_option
@scopes_option("Only these partitions")
@output_option
def offsets(name: str, bootstrap: str, scopes: list[Scope], output: str) -> None:
    """Show the start offset, the end offset and the lag of each partition of a share group."""
    from ruslo.client.views.group_lag import end_offsets

    async def run(admin: Admin) -> tuple[ShareOffsets, dict[TopicPartition, int]]:
        found = await or_name_the_command(admin, name, "describe", admin.share_group_offsets.fetch(name))
        chosen = {tp: offset for tp, offset in found.items() if _is_in(tp, scopes)}
        return chosen, await end_offsets(admin, chosen)

    found, ends = with_admin(bootstrap, run)
    rows = [
        (tp, each.start_offset, ends.get(tp), each.lag, each.error and each.error.code.name)
        for tp, each in found.items()
    ]
    if output == "json":
        print_json(
            [
                {
                    "topic": tp.topic,
                    "partition": tp.partition,
                    "start_offset": start,
                    "end_offset": end,
                    "lag": lag,
                    "error": error,
                }
                for tp, start, end, lag, error in rows
            ]
        )
    elif rows:
        print_table(
            ["TOPIC", "PARTITION", "START", "END", "LAG", "ERROR"], [(*tp, *rest) for tp, *rest in rows]
        )
    else:
        hint("The group has no offsets here. A share consumer that subscribes to a topic creates them.")


def _is_in(tp: TopicPartition, scopes: list[Scope]) -> bool:
    return not scopes or any(
        scope.topic == tp.topic and (scope.partitions is None or tp.partition in scope.partitions)
        for scope in scopes
    )
