"""``ruslo cluster reassign log-dir``: move replicas between the log directories of a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from ruslo.cli.arguments.options import bootstrap_option, examples, output_option
from ruslo.cli.arguments.partition_scope import Scope, scopes_option
from ruslo.cli.running import with_admin
from ruslo.cli.terminal.output import human_bytes, print_json, print_table

if TYPE_CHECKING:
    from ruslo.cli.terminal.progress import Progress
    from ruslo.client.admin.admin import Admin
    from ruslo.client.admin.log_dirs import LogDirectory
    from ruslo.model.errors import KafkaError
    from ruslo.model.topics import TopicPartition

_POLL_INTERVAL_S = 0.3


@dataclass(frozen=True, slots=True)
class DirMove:
    """A replica that was moved, or is moving, to a log directory."""

    partition: TopicPartition
    is_done: bool
    size_bytes: int
    copied_bytes: int
    offset_lag: int

    def as_json(self) -> dict[str, object]:
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "state": self.state,
            "size_bytes": self.size_bytes,
            "copied_bytes": self.copied_bytes,
            "offset_lag": self.offset_lag,
        }

    @property
    def state(self) -> str:
        return "done" if self.is_done else "moving"


@click.command(
    "log-dir",
    epilog=examples(
        "ruslo cluster reassign log-dir /data/2 --broker 1 --topic orders --wait",
        "ruslo cluster reassign log-dir /data/2 --broker 1 --topic orders:0-3 -o json",
    ),
)
@click.argument("path", metavar="DIRECTORY")
@bootstrap_option
@click.option("--broker", type=click.IntRange(0), required=True, metavar="ID", help="The broker.")
@scopes_option("Partitions to move")
@click.option("--wait", is_flag=True, help="Wait until all moves are complete.")
@output_option
def log_dir(path: str, bootstrap: str, broker: int, scopes: list[Scope], wait: bool, output: str) -> None:
    """Move replicas to another log directory of their broker; the present directory cancels a move.

    DIRECTORY is one of the broker's log.dirs. The replicas serve clients meanwhile. The broker config
    replica.alter.log.dirs.io.max.bytes.per.second limits the rate. Run the same command again to see the
    progress.
    """
    from ruslo.cli.terminal.errors import fail_for
    from ruslo.cli.terminal.progress import Progress

    if not scopes:
        raise click.UsageError("Choose what to move: use --topic TOPIC[:PARTITIONS].")

    async def run(admin: Admin) -> tuple[dict[TopicPartition, KafkaError], list[DirMove]]:
        from ruslo.cli.arguments.partition_scope import partitions_in

        selected = await partitions_in(admin, scopes)
        results = await admin.log_dirs.alter(broker, dict.fromkeys(selected, path))
        failed = {partition: error for partition, error in results.items() if error is not None}
        started = [partition for partition in selected if partition not in failed]
        return failed, await _moves(admin, broker, path, started, Progress() if wait else None)

    failed, moves = with_admin(bootstrap, run)
    if output == "json":
        print_json(
            {
                "partitions": [each.as_json() for each in moves],
                "refused": [
                    {"topic": topic, "partition": number, "error": error.code.name}
                    for (topic, number), error in failed.items()
                ],
            }
        )
    elif moves:
        print_table(
            ["TOPIC", "PARTITION", "STATE", "SIZE", "COPIED", "LAG"],
            [
                (
                    *each.partition,
                    each.state,
                    human_bytes(each.size_bytes),
                    human_bytes(each.copied_bytes),
                    each.offset_lag,
                )
                for each in moves
            ],
        )
        click.echo(f"{_summary(moves)}.", err=True)
    fail_for(failed)


async def _moves(
    admin: Admin, broker: int, path: str, partitions: Collection[TopicPartition], progress: Progress | None
) -> list[DirMove]:
    """The moves as they are now; with ``progress``, when none is left."""
    while True:
        moves = _found(await admin.log_dirs.describe(broker), path, partitions)
        if progress is None:
            return moves
        if all(each.is_done for each in moves):
            progress.clear()
            return moves
        done = sum(each.is_done for each in moves) / len(moves)
        progress.tick(partial(_summary, moves), partial(float, done))
        await asyncio.sleep(_POLL_INTERVAL_S)


def _found(
    directories: Collection[LogDirectory], path: str, partitions: Collection[TopicPartition]
) -> list[DirMove]:
    replicas = [
        (each.path, replica)
        for each in directories
        for replica in each.replicas
        if replica.partition in partitions
    ]
    sizes = {replica.partition: replica.size_bytes for _, replica in replicas if not replica.is_future}
    moves = [
        DirMove(
            replica.partition,
            not replica.is_future,
            sizes.get(replica.partition, replica.size_bytes),
            replica.size_bytes,
            replica.offset_lag if replica.is_future else 0,
        )
        for where, replica in replicas
        if where == path
    ]
    return sorted(moves, key=lambda each: each.partition)


def _summary(moves: Collection[DirMove]) -> str:
    done = sum(each.is_done for each in moves)
    left = sum(max(each.size_bytes - each.copied_bytes, 0) for each in moves if not each.is_done)
    return f"{done} of {len(moves)} partitions are done, {human_bytes(left)} to copy"
