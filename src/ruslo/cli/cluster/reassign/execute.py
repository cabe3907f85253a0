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

    from ruslo.cli.cluster.reassign.plan_file import Plan
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
    help="Maximum copy rate per broker, in bytes per second: 50MB or 10MiB.",
)
@click.option(
    "--log-dir-throttle",
    callback=rate_callback,
    metavar="RATE",
    help="Maximum copy rate between the log directories of a broker: 50MB or 10MiB.",
)
@click.option(
    "--save-current",
    type=click.File("w", encoding="utf-8"),
    metavar="FILE",
    help="Write the current assignment to this file, as a plan to roll back with.",
)
@click.option("--wait", is_flag=True, help="Wait until all moves are complete.")
@output_option
def execute(
    file: TextIO,
    bootstrap: str,
    throttle: int | None,
    log_dir_throttle: int | None,
    save_current: TextIO | None,
    wait: bool,
    output: str,
) -> None:
    """Start the moves of a plan made by Ruslo or by Kafka's tool; '-' reads it from stdin.

    Replicas also move to the log directories that the plan names ("log_dirs"). The throttles are removed when
    --wait, or 'status' with the same plan, finds all moves complete.
    """
    from ruslo.cli.cluster.reassign.log_dir_targets import check_directories, current_directories, start_moves
    from ruslo.cli.cluster.reassign.plan_file import Plan, format_plan, read_plan
    from ruslo.cli.cluster.reassign.progress import current_progress, print_moves, wait_until_done
    from ruslo.cli.cluster.reassign.throttle import clear_throttle
    from ruslo.cli.terminal.errors import fail_for
    from ruslo.cli.terminal.progress import Progress

    plan = read_plan(file)

    async def run(admin: Admin) -> tuple[dict[TopicPartition, KafkaError], list[MoveStatus]]:
        await check_directories(admin, plan.log_dirs)
        current = await _current(admin, plan.replicas)
        if save_current is not None:
            present = await current_directories(admin, plan.log_dirs)
            save_current.write(format_plan(Plan(current, present)))
            save_current.close()
        await _set_throttles(admin, plan, current, throttle, log_dir_throttle)
        results = await admin.reassignments.alter(plan.replicas)
        failed = {partition: error for partition, error in results.items() if error is not None}
        started = plan.only(plan.replicas.keys() - failed.keys())
        refused = await start_moves(admin, started.log_dirs)
        failed |= refused
        started = started.only(started.replicas.keys() - refused.keys())
        is_throttled = throttle is not None or log_dir_throttle is not None
        topics = {partition.topic for partition in plan.replicas}
        if not wait or not started.replicas:
            if not started.replicas and not refused and is_throttled:
                await clear_throttle(admin, topics)
            return failed, await current_progress(admin, started)
        progress = Progress()
        statuses = await wait_until_done(admin, started, progress)
        progress.clear()
        if is_throttled:
            await clear_throttle(admin, topics)
        return failed, statuses

    failed, statuses = with_admin(bootstrap, run)
    print_moves(statuses, output, failed)
    fail_for(failed)
    if not wait:
        hint(f"Show progress: ruslo cluster reassign status {file.name}")


async def _set_throttles(
    admin: Admin,
    plan: Plan,
    current: Mapping[TopicPartition, tuple[int, ...]],
    rate: int | None,
    log_dir_rate: int | None,
) -> None:
    from ruslo.cli.cluster.reassign.throttle import Move, set_log_dir_throttle, set_throttle

    if rate is not None:
        moves = {partition: Move(current[partition], new) for partition, new in plan.replicas.items()}
        await set_throttle(admin, moves, rate)
    if log_dir_rate is not None:
        await set_log_dir_throttle(admin, plan.log_dirs, log_dir_rate)


async def _current(
    admin: Admin, plan: Mapping[TopicPartition, tuple[int, ...]]
) -> dict[TopicPartition, tuple[int, ...]]:
    """The replicas of the plan's partitions, without replicas that an ongoing move is adding."""
    from ruslo.model.errors import ErrorCode, KafkaError

    metadata = await admin.cluster.metadata({partition.topic for partition in plan})
    ongoing = await admin.reassignments.ongoing(list(plan))
    current = {}
    for partition in plan:
        info = metadata.topic(partition.topic).partition(partition.partition)
        if info is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unknown partition {partition}")
        adding = ongoing[partition].adding if partition in ongoing else ()
        current[partition] = tuple(replica for replica in info.replicas if replica not in adding)
    return current
