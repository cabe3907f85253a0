"""Progress of reassignments: completed moves, ongoing moves, and bytes left to copy."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from ruslo.cli.cluster.reassign.log_dir_targets import unfinished_moves
from ruslo.cli.terminal.output import human_bytes, print_json, print_table
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.topics import TopicPartition

if TYPE_CHECKING:
    from ruslo.cli.cluster.reassign.plan_file import Plan
    from ruslo.cli.terminal.progress import Progress
    from ruslo.client.admin.admin import Admin
    from ruslo.client.admin.reassignments import OngoingReassignment

_POLL_INTERVAL_S = 0.3
_MAX_POLLS = 4


class MoveState(enum.Enum):
    DONE = "done"
    MOVING = "moving"
    ELSEWHERE = "elsewhere"
    """The partition has, or is moving to, other replicas or log directories than the plan."""
    GONE = "gone"
    """The partition does not exist."""


@dataclass(frozen=True, slots=True)
class MoveStatus:
    partition: TopicPartition
    state: MoveState
    target: tuple[int, ...]
    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    bytes_left: int | None = None
    """None if unknown."""
    log_dirs_pending: tuple[int, ...] = ()
    """Brokers whose replica is not yet in the log directory of the plan."""

    def as_json(self) -> dict[str, object]:
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "state": self.state.value,
            "target": list(self.target),
            "replicas": list(self.replicas),
            "adding": list(self.adding),
            "removing": list(self.removing),
            "bytes_left": self.bytes_left,
            "log_dirs_pending": list(self.log_dirs_pending),
        }


async def progress_of(admin: Admin, plan: Plan | None) -> list[MoveStatus]:
    """The progress of the plan's partitions, or of all ongoing moves."""
    ongoing = await admin.reassignments.ongoing(None if plan is None else list(plan.replicas))
    left = await _bytes_left(admin, ongoing) if ongoing else {}
    if plan is None:
        return [
            _moving(partition, move, move.target, left.get(partition)) for partition, move in ongoing.items()
        ]
    topics = (await admin.cluster.metadata({partition.topic for partition in plan.replicas})).topics
    pending = await unfinished_moves(admin, plan.log_dirs)
    statuses = []
    for partition, target in sorted(plan.replicas.items()):
        topic = topics.get(partition.topic)
        info = None if topic is None else topic.partition(partition.partition)
        if partition in ongoing:
            statuses.append(_moving(partition, ongoing[partition], target, left.get(partition)))
        elif info is None:
            statuses.append(MoveStatus(partition, MoveState.GONE, target, ()))
        else:
            moves = pending.get(partition, {})
            state = _state_in_place(moves) if info.replicas == target else MoveState.ELSEWHERE
            statuses.append(
                MoveStatus(partition, state, target, info.replicas, log_dirs_pending=tuple(sorted(moves)))
            )
    return statuses


def _state_in_place(moves: Mapping[int, bool]) -> MoveState:
    """The state of a partition on the right brokers, by its moves between log directories."""
    if not moves:
        return MoveState.DONE
    return MoveState.MOVING if all(moves.values()) else MoveState.ELSEWHERE


def _moving(
    partition: TopicPartition, move: OngoingReassignment, target: tuple[int, ...], bytes_left: int | None
) -> MoveStatus:
    state = MoveState.MOVING if move.target == target else MoveState.ELSEWHERE
    return MoveStatus(partition, state, target, move.replicas, move.adding, move.removing, bytes_left)


async def current_progress(admin: Admin, plan: Plan | None) -> list[MoveStatus]:
    """``progress_of``, retried while the broker has not yet applied a change that was just made."""
    for _ in range(_MAX_POLLS):
        statuses = await progress_of(admin, plan)
        if all(each.state is not MoveState.ELSEWHERE or each.adding or each.removing for each in statuses):
            break
        await asyncio.sleep(_POLL_INTERVAL_S)
    return statuses


async def wait_until_done(admin: Admin, plan: Plan, progress: Progress) -> list[MoveStatus]:
    """Wait until no partition of the plan is moving."""
    while True:
        statuses = await current_progress(admin, plan)
        if all(each.state is not MoveState.MOVING for each in statuses):
            return statuses
        progress.tick(partial(summary, statuses), partial(share_done, statuses))
        await asyncio.sleep(_POLL_INTERVAL_S)


def share_done(statuses: Sequence[MoveStatus]) -> float:
    return sum(each.state is not MoveState.MOVING for each in statuses) / max(len(statuses), 1)


def summary(statuses: Sequence[MoveStatus]) -> str:
    done = sum(each.state is MoveState.DONE for each in statuses)
    left = [each.bytes_left for each in statuses if each.bytes_left is not None]
    text = f"{done} of {len(statuses)} partitions are done"
    return f"{text}, {human_bytes(sum(left))} to copy" if left else text


async def _bytes_left(
    admin: Admin, ongoing: Mapping[TopicPartition, OngoingReassignment]
) -> dict[TopicPartition, int]:
    """Bytes that the new replicas still have to copy, estimated from the largest replica."""
    sizes: dict[TopicPartition, dict[int, int]] = {}
    for broker in sorted({broker for move in ongoing.values() for broker in move.replicas}):
        try:
            directories = await admin.log_dirs.describe(broker)
        except KafkaError as error:
            # The broker is down or denies access: show the progress without its sizes.
            if error.code in (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
                continue
            raise
        for directory in directories:
            for replica in directory.replicas:
                if replica.partition in ongoing and not replica.is_future:
                    sizes.setdefault(replica.partition, {})[broker] = replica.size_bytes
    return {
        partition: sum(max(held.values()) - held.get(broker, 0) for broker in ongoing[partition].adding)
        for partition, held in sizes.items()
    }


def print_moves(statuses: list[MoveStatus], output: str, failed: Mapping[TopicPartition, KafkaError]) -> None:
    if output == "json":
        print_json(
            {
                "partitions": [each.as_json() for each in statuses],
                "refused": [
                    {"topic": topic, "partition": number, "error": error.code.name}
                    for (topic, number), error in failed.items()
                ],
            }
        )
        return
    if not statuses:
        if not failed:
            click.echo("No reassignment is in progress.")
        return
    print_table(
        ["TOPIC", "PARTITION", "STATE", "TARGET", "REPLICAS", "ADDING", "REMOVING", "TO COPY", "LOG DIRS"],
        [
            (
                *each.partition,
                each.state.value,
                each.target,
                each.replicas,
                each.adding,
                each.removing,
                "-" if each.bytes_left is None else human_bytes(each.bytes_left),
                each.log_dirs_pending,
            )
            for each in statuses
        ],
    )
    click.echo(f"{summary(statuses)}.", err=True)
