"""What a shard asks its driver to find out: patterns and targets.

Each answer is another event of the shard.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from ruslo.broker.coordinators.groups.assignor_runner import AssignorRunner
from ruslo.broker.coordinators.groups.lags import with_lags
from ruslo.broker.coordinators.groups.shard_driver import ShardDriver
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.scheduling.scheduler import Priority, Scheduler
from ruslo.machines.assignors.spec import GroupSpec
from ruslo.machines.groups.consumer.patterns import matching_topics
from ruslo.machines.groups.consumer.ports import AssignorFailure
from ruslo.machines.groups.events import (
    Ask,
    ComputeTarget,
    RegexResolved,
    ResolvedRegex,
    ResolveRegex,
    TargetComputed,
)
from ruslo.machines.groups.topics_view import TopicsView
from ruslo.model.clock import Clock
from ruslo.model.errors import KafkaError

logger = logging.getLogger(__name__)


class Asks:
    def __init__(
        self,
        runner: AssignorRunner,
        partitions: PartitionManager,
        topics: TopicsView,
        clock: Clock,
        scheduler: Scheduler,
    ) -> None:
        self._runner = runner
        self._partitions = partitions
        self._topics = topics
        self._clock = clock
        self._scheduler = scheduler
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(self, shard: ShardDriver, ask: Ask) -> None:
        work = self._resolve(shard, ask) if isinstance(ask, ResolveRegex) else self._compute(shard, ask)
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a group's question could not be answered", exc_info=error)

    async def _resolve(self, shard: ShardDriver, ask: ResolveRegex) -> None:
        names, version = list(self._topics.all_names()), self._topics.version
        found = await asyncio.to_thread(_matching, ask.patterns, names)
        resolved_ms = self._clock.now_ms()
        if shard.active:
            shard.run(
                RegexResolved(
                    ask.group_id,
                    {
                        pattern: ResolvedRegex(topics, version, resolved_ms)
                        for pattern, topics in found.items()
                    },
                )
            )

    async def _compute(self, shard: ShardDriver, ask: ComputeTarget) -> None:
        assert isinstance(ask.spec, GroupSpec)
        group = ask.spec
        if self._runner.needs_lag(ask.assignor):
            steps = with_lags(group, shard.shard.state.offsets, self._partitions)
            group = await self._scheduler.run(steps, priority=Priority.REQUEST, name="lags of a group")
        result = await self._runner.run(ask.assignor, group)
        if isinstance(result, AssignorFailure):
            logger.error(
                "assignor %r failed for group %r, which keeps the assignment it has: it %s",
                result.assignor,
                ask.group_id,
                result.message,
            )
        if shard.active:
            shard.run(TargetComputed(ask.group_id, ask.group_epoch, result))


def _matching(patterns: Iterable[str], names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """In a thread: topics by pattern."""
    found: dict[str, tuple[str, ...]] = {}
    for pattern in patterns:
        try:
            found[pattern] = matching_topics(pattern, names)
        except KafkaError as error:
            # Accepted by another system's coordinator, whose syntax differs in corners.
            logger.warning("a stored pattern matches no topics: %s", error.message)
            found[pattern] = ()
    return found
