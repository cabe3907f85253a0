"""``ruslo topic describe``: partitions, offsets, sizes and configs of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.completion import complete_topics
from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import human_bytes, print_fields, print_json, print_table

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.client.views.topic_view import TopicView


@click.command(epilog=examples("ruslo topic describe orders", "ruslo topic describe orders payments -o json"))
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_topics)
@bootstrap_option
@click.option("--all-configs", is_flag=True, help="Include configs with their default value.")
@output_option
def describe(names: tuple[str, ...], bootstrap: str, all_configs: bool, output: str) -> None:
    """Show partitions, leaders, offsets, sizes and configs."""
    from ruslo.client.views.topic_view import describe_topic

    async def views(admin: Admin) -> list[TopicView]:
        return [await describe_topic(admin, name) for name in names]

    found = with_admin(bootstrap, views)
    if output == "json":
        print_json([view.as_json(all_configs) for view in found])
        return
    for number, view in enumerate(found):
        if number:
            click.echo()
        print_fields(
            [
                ("Topic", view.name),
                ("Id", view.topic_id),
                ("Partitions", len(view.partitions)),
                ("Records", view.record_count),
                ("Size", "-" if view.size_bytes is None else human_bytes(view.size_bytes)),
                *(
                    (f"  {c.name}", f"{c.value}  ({c.source.name.lower()})")
                    for c in view.shown_configs(all_configs)
                ),
            ]
        )
        click.echo()
        print_table(
            ["PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "FIRST", "NEXT", "SIZE"],
            [
                (
                    p.partition,
                    p.leader,
                    p.epoch,
                    p.replicas,
                    p.isr,
                    p.first_offset,
                    p.next_offset,
                    p.size_bytes,
                )
                for p in view.partitions
            ],
        )
