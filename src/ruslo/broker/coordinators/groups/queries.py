"""Executes the queries of group shards: regular expressions, target assignments, states of share groups.

The result of a query is another event of its shard.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ruslo.broker.coordinators.groups.assignor_runner import AssignorRunner
from ruslo.broker.coordinators.groups.lags import with_lags
from ruslo.broker.coordinators.groups.share_states import ShareStates
from ruslo.broker.coordinators.runtime.shard import CoordinatorShard
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.requests.access import OPEN, Access
from ruslo.broker.scheduling.background_tasks import BackgroundTasks
from ruslo.broker.scheduling.scheduler import Priority, Scheduler
from ruslo.broker.security.authorization import Authorization, access_of
from ruslo.machines.assignors.spec import GroupSpec
from ruslo.machines.assignors.streams.model import TaskAssignment, TaskAssignorError
from ruslo.machines.groups.consumer.patterns import matching_topics
from ruslo.machines.groups.consumer.ports import AssignorFailure, AssignorResult
from ruslo.machines.groups.events import (
    ComputeTarget,
    ComputeTasks,
    GroupQuery,
    RegexResolved,
    ResolvedRegex,
    ResolveRegex,
    TargetComputed,
)
from ruslo.machines.groups.shard import GroupShard
from ruslo.machines.groups.topics_view import TopicsView
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.clock import Clock
from ruslo.model.errors import KafkaError

logger = logging.getLogger(__name__)

Shard: TypeAlias = CoordinatorShard[GroupShard]


@dataclass(eq=False)
class GroupQueries:
    _runner: AssignorRunner
    _partitions: PartitionManager
    _topics: TopicsView
    _clock: Clock
    _scheduler: Scheduler
    _share_states: ShareStates
    _authorization: Authorization | None = None
    _tasks: BackgroundTasks = field(default_factory=BackgroundTasks, init=False)

    def execute(self, shard: Shard, query: GroupQuery) -> None:
        self._tasks.start(self._execute(shard, query)).add_done_callback(_report_error)

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _execute(self, shard: Shard, query: GroupQuery) -> None:
        if isinstance(query, ResolveRegex):
            await self._resolve(shard, query)
        elif isinstance(query, ComputeTarget):
            await self._compute(shard, query)
        elif isinstance(query, ComputeTasks):
            await self._compute_tasks(shard, query)
        else:
            shard.handle(await self._share_states.execute(query))

    async def _resolve(self, shard: Shard, query: ResolveRegex) -> None:
        names, version = list(self._topics.all_names()), self._topics.version
        found = await asyncio.to_thread(_matching, query.patterns, names)
        access = access_of(self._authorization, query.principal, query.host)
        if access is not OPEN:
            found = {
                pattern: tuple(name for name in topics if _is_describable(access, name))
                for pattern, topics in found.items()
            }
        resolved_ms = self._clock.now_ms()
        shard.handle(
            RegexResolved(
                query.group_id,
                {pattern: ResolvedRegex(topics, version, resolved_ms) for pattern, topics in found.items()},
            )
        )

    async def _compute(self, shard: Shard, query: ComputeTarget) -> None:
        assert isinstance(query.spec, GroupSpec)
        group = query.spec
        if self._runner.needs_lag(query.assignor):
            steps = with_lags(group, shard.machine.state.offsets, self._partitions)
            group = await self._scheduler.run(steps, priority=Priority.REQUEST, name="lags of a group")
        result = await self._runner.run(query.assignor, group)
        _deliver(shard, query, result)

    async def _compute_tasks(self, shard: Shard, query: ComputeTasks) -> None:
        assignor = shard.machine.state.task_assignors[query.assignor]
        result: TaskAssignment | AssignorFailure
        try:
            result = await asyncio.to_thread(assignor.assign, query.spec, query.topology)
        except TaskAssignorError as error:
            result = AssignorFailure(query.assignor, f"could not assign the tasks: {error}")
        _deliver(shard, query, result)


def _deliver(
    shard: Shard, query: ComputeTarget | ComputeTasks, result: AssignorResult | TaskAssignment
) -> None:
    if isinstance(result, AssignorFailure):
        logger.error(
            "Assignor %r failed for group %r, which keeps its assignment: it %s",
            result.assignor,
            query.group_id,
            result.message,
        )
    shard.handle(TargetComputed(query.group_id, query.group_epoch, result))


def _is_describable(access: Access, name: str) -> bool:
    return access.allows(
        Operation.DESCRIBE, ResourceType.TOPIC, name, "ConsumerGroupHeartbeat", audited=False
    )


def _matching(patterns: Iterable[str], names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The matching topics by pattern; runs in a thread."""
    found: dict[str, tuple[str, ...]] = {}
    for pattern in patterns:
        try:
            found[pattern] = matching_topics(pattern, names)
        except KafkaError as error:
            # Another system's coordinator has accepted it; its regular expressions differ slightly.
            logger.warning("A stored pattern matches no topics: %s", error.message)
            found[pattern] = ()
    return found


def _report_error(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("A query of a group failed", exc_info=error)
