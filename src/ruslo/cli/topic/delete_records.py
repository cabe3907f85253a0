"""``ruslo topic delete-records``: delete the oldest records of a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.completion import complete_topics
from ruslo.cli.arguments.options import bootstrap_option, confirm, examples, output_option, parsed, yes_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import print_json, print_table
from ruslo.client.views.position import AtOffset, AtStart, AtTime, BeforeEnd, Position, parse_position

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.model.topics import TopicPartition


@click.command(
    "delete-records",
    epilog=examples(
        "ruslo topic delete-records orders --before end",
        "ruslo topic delete-records orders --before 7d --yes",
        "ruslo topic delete-records orders -p 0 --before 1000",
    ),
)
@click.argument("name", shell_complete=complete_topics)
@bootstrap_option
@click.option(
    "-p",
    "--partition",
    "numbers",
    type=click.IntRange(0),
    multiple=True,
    help="Only this partition. Repeatable.",
)
@click.option(
    "--before",
    required=True,
    callback=parsed(parse_position),
    metavar="POSITION",
    help="end, an offset (1000), records before the end (-100), an age (7d), a date and time, or @ms.",
)
@yes_option
@output_option
def delete_records(
    name: str, bootstrap: str, numbers: tuple[int, ...], before: Position, yes: bool, output: str
) -> None:
    """Delete the oldest records of a topic, up to an offset or time."""
    confirm(f"Delete the oldest records of {name}?", yes)

    async def run(admin: Admin) -> dict[TopicPartition, int]:
        from ruslo.model.topics import TopicPartition

        info = await admin.topics.describe(name)
        partitions = [TopicPartition(name, p) for p in numbers or [p.partition for p in info.partitions]]
        return await admin.topics.delete_records(await _offsets(admin, partitions, before))

    starts = with_admin(bootstrap, run)
    if output == "json":
        print_json(
            [{"topic": p.topic, "partition": p.partition, "first_offset": s} for p, s in starts.items()]
        )
    else:
        print_table(["PARTITION", "FIRST"], [(p.partition, start) for p, start in starts.items()])


async def _offsets(
    admin: Admin, partitions: list[TopicPartition], before: Position
) -> dict[TopicPartition, int]:
    from ruslo.client.admin.topics import HIGH_WATERMARK

    match before:
        case AtOffset(offset):
            return dict.fromkeys(partitions, offset)
        case BeforeEnd(0):
            return dict.fromkeys(partitions, HIGH_WATERMARK)
        case AtTime(timestamp_ms):
            found = await admin.offsets.find(dict.fromkeys(partitions, timestamp_ms))
            return {p: listed.offset if listed.offset >= 0 else HIGH_WATERMARK for p, listed in found.items()}
        case AtStart() | BeforeEnd(_):
            ranges = await admin.offsets.ranges(partitions)
            keep = before.records if isinstance(before, BeforeEnd) else None
            return {
                p: first if keep is None else max(first, end - keep) for p, (first, end) in ranges.items()
            }
