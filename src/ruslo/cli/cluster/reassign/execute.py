"""``ruslo cluster reassign execute``: start the moves of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

import click

from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.cluster.reassign.throttle import rate_callback
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ruslo.cli.cluster.reassign.progress import MoveStatus
    from ruslo.client.admin.admin import Admin
    from ruslo.model.errors import KafkaError
    from ruslo.model.topics import TopicPartition


@click.command(
    epilog=examples(
        "ruslo cluster reassign execute plan.json",
        "ruslo cluster reassign execute plan.json --throttle 50MB --wait",
        "ruslo cluster reassign execute plan.json --save-current before.json",
        "ruslo cluster reassign plan --drain 3 | ruslo cluster reassign execute - --wait",
    )
)
@click.argument("file", type=click.File("r", encoding="utf-8"), metavar="PLAN")
@bootstrap_option
@click.option(
    "--throttle",
    callback=rate_callback,
    metavar="RATE",
    help="Copy at most so many bytes a second at each broker, as 50MB or 10MiB.",
)
@click.option(
    "--save-current",
    type=click.File("w", encoding="utf-8"),
    metavar="FILE",
    help="Write a plan here that leads back to where replicas are now.",
)
@click.option("--wait", is_flag=True, help="Wait until all replicas have moved.")
@output_option
def execute(
    file: TextIO, bootstrap: str, throttle: int | None, save_current: TextIO | None, wait: bool, output: str
) -> None:
    """Begin the moves of a plan, ours or one of Kafka's own tool; '-' reads it from stdin.

    A throttle stays until 'status' with the plan (or --wait) has seen all moves done.
    """
    from ruslo.cli.cluster.reassign.plan_file import format_plan, read_plan
    from ruslo.cli.cluster.reassign.progress import print_moves, settled_progress, wait_until_done
    from ruslo.cli.cluster.reassign.throttle import Move, clear_throttle, set_throttle
    from ruslo.cli.terminal.errors import fail_for
    from ruslo.cli.terminal.progress import Progress

    wanted = read_plan(file)

    async def run(admin: Admin) -> tuple[dict[TopicPartition, KafkaError], list[MoveStatus]]:
        current = await _current(admin, wanted)
        if save_current is not None:
            save_current.write(format_plan(current))
            save_current.close()
        if throttle is not None:
            moves = {partition: Move(current[partition], new) for partition, new in wanted.items()}
            await set_throttle(admin, moves, throttle)
        results = await admin.reassignments.alter(wanted)
        refused = {partition: error for partition, error in results.items() if error is not None}
        begun = {partition: new for partition, new in wanted.items() if partition not in refused}
        if not wait or not begun:
            if not begun and throttle is not None:
                await clear_throttle(admin, {partition.topic for partition in wanted})
            return refused, await settled_progress(admin, begun)
        progress = Progress()
        statuses = await wait_until_done(admin, begun, progress)
        progress.clear()
        if throttle is not None:
            await clear_throttle(admin, {partition.topic for partition in wanted})
        return refused, statuses

    refused, statuses = with_admin(bootstrap, run)
    print_moves(statuses, output, refused)
    fail_for(refused)
    if not wait:
        hint(f"Watch it: ruslo cluster reassign status {file.name}")


async def _current(
    admin: Admin, wanted: Mapping[TopicPartition, tuple[int, ...]]
) -> dict[TopicPartition, tuple[int, ...]]:
    """The replicas of the plan's partitions; those under way to another place count where they come from."""
    from ruslo.model.errors import ErrorCode, KafkaError

    metadata = await admin.cluster.metadata({partition.topic for partition in wanted})
    ongoing = await admin.reassignments.ongoing(list(wanted))
    current = {}
    for partition in wanted:
        info = metadata.topic(partition.topic).partition(partition.partition)
        if info is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition}")
        adding = ongoing[partition].adding if partition in ongoing else ()
        current[partition] = tuple(replica for replica in info.replicas if replica not in adding)
    return current
