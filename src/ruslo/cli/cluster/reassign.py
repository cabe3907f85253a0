"""``ruslo cluster reassign``: move replicas to other brokers, watch it, take it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

import click

from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.cluster.reassign_plan import plan
from ruslo.cli.cluster.replication_throttle import rate_callback
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import hint, human_bytes, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ruslo.cli.cluster.reassignment_progress import MoveStatus
    from ruslo.client.admin.admin import Admin
    from ruslo.model.errors import KafkaError
    from ruslo.model.topics import TopicPartition

_plan_argument = click.argument("file", type=click.File("r", encoding="utf-8"), metavar="PLAN")


@click.group(
    "reassign",
    short_help="Move replicas to other brokers.",
    epilog=examples(
        "ruslo cluster reassign plan --drain 3 > plan.json",
        "ruslo cluster reassign execute plan.json --throttle 50MB --wait",
        "ruslo cluster reassign status",
    ),
)
def reassign() -> None:
    """Move replicas to other brokers: make a plan, execute it, watch it, cancel it."""


reassign.add_command(plan)


@reassign.command(
    epilog=examples(
        "ruslo cluster reassign execute plan.json",
        "ruslo cluster reassign execute plan.json --throttle 50MB --wait",
        "ruslo cluster reassign execute plan.json --save-current before.json",
        "ruslo cluster reassign plan --drain 3 | ruslo cluster reassign execute - --wait",
    )
)
@_plan_argument
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
    from ruslo.cli.cluster.reassignment_file import format_plan
    from ruslo.cli.cluster.reassignment_progress import settled_progress, wait_until_done
    from ruslo.cli.cluster.replication_throttle import Move, clear_throttle, set_throttle
    from ruslo.cli.terminal.errors import fail_for
    from ruslo.cli.terminal.progress import Progress

    wanted = _read(file)

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
    _print(statuses, output, refused)
    fail_for(refused)
    if not wait:
        hint(f"Watch it: ruslo cluster reassign status {file.name}")


@reassign.command(
    epilog=examples(
        "ruslo cluster reassign status",
        "ruslo cluster reassign status plan.json",
        "ruslo cluster reassign status plan.json --wait -o json",
    )
)
@click.argument("file", type=click.File("r", encoding="utf-8"), metavar="[PLAN]", required=False)
@bootstrap_option
@click.option("--wait", is_flag=True, help="Wait until nothing of the plan moves any more.")
@click.option("--preserve-throttle", is_flag=True, help="Leave the throttle when all is done.")
@output_option
def status(file: TextIO | None, bootstrap: str, wait: bool, preserve_throttle: bool, output: str) -> None:
    """Show what moves, or how far a plan is. When all of a plan is done its throttle is removed.

    Exit code 1: a partition of the plan has other replicas and is not on its way to the plan's.
    """
    from ruslo.cli.cluster.reassignment_progress import MoveState, settled_progress, wait_until_done
    from ruslo.cli.cluster.replication_throttle import clear_throttle
    from ruslo.cli.terminal.progress import Progress

    wanted = None if file is None else _read(file)
    if wait and wanted is None:
        raise click.UsageError("--wait needs the plan to wait for.")

    async def run(admin: Admin) -> tuple[list[MoveStatus], bool]:
        if wait and wanted is not None:
            progress = Progress()
            statuses = await wait_until_done(admin, wanted, progress)
            progress.clear()
        else:
            statuses = await settled_progress(admin, wanted)
        finished = wanted is not None and all(each.state is MoveState.DONE for each in statuses)
        if wanted is None or not finished or preserve_throttle:
            return statuses, False
        return statuses, await clear_throttle(admin, {partition.topic for partition in wanted})

    statuses, cleared = with_admin(bootstrap, run)
    _print(statuses, output, {})
    if cleared:
        click.echo("The throttle was removed.", err=True)
    astray = [each for each in statuses if each.state in (MoveState.ELSEWHERE, MoveState.GONE)]
    if wanted is not None and astray:
        raise click.ClickException(
            f"{len(astray)} partitions are not where the plan wants them and not on their way: "
            f"{', '.join(str(each.partition) for each in astray)}. Execute it again, or make a new plan"
        )


@reassign.command(
    epilog=examples("ruslo cluster reassign cancel plan.json", "ruslo cluster reassign cancel --all")
)
@click.argument("file", type=click.File("r", encoding="utf-8"), metavar="[PLAN]", required=False)
@bootstrap_option
@click.option("--all", "everything", is_flag=True, help="All that moves, whoever began it.")
@output_option
def cancel(file: TextIO | None, bootstrap: str, everything: bool, output: str) -> None:
    """Stop moves that are under way: partitions go back to the replicas they had. Removes throttles too."""
    from ruslo.cli.cluster.replication_throttle import clear_throttle
    from ruslo.cli.terminal.errors import fail_for

    if (file is None) != everything:
        raise click.UsageError("Say what to cancel: a PLAN, or --all.")
    wanted = None if file is None else _read(file)

    async def run(admin: Admin) -> dict[TopicPartition, KafkaError | None]:
        ongoing = await admin.reassignments.ongoing(None if wanted is None else list(wanted))
        results = await admin.reassignments.alter(dict.fromkeys(ongoing)) if ongoing else {}
        await clear_throttle(admin, {partition.topic for partition in wanted or ongoing})
        return results

    results = with_admin(bootstrap, run)
    if output == "json":
        print_json(
            [
                {"topic": topic, "partition": number, "error": None if error is None else error.code.name}
                for (topic, number), error in results.items()
            ]
        )
    elif not results:
        click.echo("Nothing is being moved.")
    else:
        for partition, error in results.items():
            if error is None:
                click.echo(f"cancelled {partition}")
    fail_for({partition: error for partition, error in results.items() if error is not None})


def _read(file: TextIO) -> dict[TopicPartition, tuple[int, ...]]:
    from ruslo.cli.cluster.reassignment_file import parse_plan
    from ruslo.model.errors import ConfigError

    try:
        return parse_plan(file.read())
    except (ConfigError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file.name}: {error}") from None


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


def _print(statuses: list[MoveStatus], output: str, refused: Mapping[TopicPartition, KafkaError]) -> None:
    from ruslo.cli.cluster.reassignment_progress import summary

    if output == "json":
        print_json(
            {
                "partitions": [each.as_json() for each in statuses],
                "refused": [
                    {"topic": topic, "partition": number, "error": error.code.name}
                    for (topic, number), error in refused.items()
                ],
            }
        )
        return
    if not statuses:
        if not refused:
            click.echo("Nothing is being moved.")
        return
    print_table(
        ["TOPIC", "PARTITION", "STATE", "TARGET", "REPLICAS", "ADDING", "REMOVING", "TO COPY"],
        [
            (
                *each.partition,
                each.state.value,
                each.target,
                each.replicas,
                each.adding,
                each.removing,
                "-" if each.bytes_left is None else human_bytes(each.bytes_left),
            )
            for each in statuses
        ],
    )
    click.echo(f"{summary(statuses)}.", err=True)
