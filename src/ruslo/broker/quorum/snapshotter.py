"""Takes snapshots of the metadata when they are due, without stopping the node.

A listener owns the state and changes it in place when records are committed. So the records of a snapshot are
collected by the scheduler while the feed is on hold; encoding and writing happen in a
thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, TypeAlias

from ruslo.broker.quorum.commit_feed import CommitFeed
from ruslo.broker.quorum.metadata_batches import VersionedRecord
from ruslo.broker.scheduling.scheduler import Priority, Scheduler, consume, for_each
from ruslo.machines.raft.snapshots import SnapshotId, SnapshotPolicy
from ruslo.model.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Coroutine

SnapshotSource: TypeAlias = Callable[[], Iterable[VersionedRecord]]
"""The state as records, metadata.version first, then in Kafka's order; nothing is applied meanwhile."""
SnapshotWriter: TypeAlias = "Callable[[SnapshotId, list[VersionedRecord]], Coroutine[None, None, None]]"

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Snapshotter:
    _source: SnapshotSource
    _policy: SnapshotPolicy
    _feed: CommitFeed
    _clock: Clock
    _scheduler: Scheduler
    _: KW_ONLY
    write: SnapshotWriter
    resume: Callable[[], None]
    """Called when the feed may deliver again."""
    on_failure: Callable[[BaseException], None]

    def __post_init__(self) -> None:
        self._stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0
        self._task: asyncio.Task[None] | None = None

    def check(self) -> None:
        """Start a snapshot if one is due, or set the timer for the next one; cheap if neither."""
        if self._stopped or self._task is not None:
            return
        if self._feed.in_transaction or self._feed.is_within_batch:
            return
        now_ms = self._clock.monotonic_ms()
        if self._policy.is_due(now_ms):
            self._cancel_timer()
            self._policy.taken()
            self._feed.hold()
            take = self._take(self._feed.applied)
            self._task = asyncio.get_running_loop().create_task(take, name="metadata-snapshot")
            self._task.add_done_callback(self._taken)
            return
        deadline_ms = self._policy.deadline_ms()
        if deadline_ms is not None and (self._timer is None or self._timer_at_ms != deadline_ms):
            self._cancel_timer()
            self._timer_at_ms = deadline_ms
            delay_s = (deadline_ms - now_ms) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._timer_fired)

    async def stop(self) -> None:
        """Wait for a snapshot in progress, which takes little time."""
        self._stopped = True
        self._cancel_timer()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _take(self, id: SnapshotId) -> None:
        records: list[VersionedRecord] = []
        try:
            # Committed records wait for it.
            steps = for_each(self._source(), records.append)
            await self._scheduler.run(steps, priority=Priority.CLUSTER, name="records of a snapshot")
        finally:
            self._feed.release()
        self.resume()
        await self.write(id, records)
        logger.info("wrote a metadata snapshot at offset %d, epoch %d: %d records", *id, len(records))
        steps = for_each(consume(records), lambda _: None)
        await self._scheduler.run(steps, priority=Priority.BACKGROUND, name="release of a snapshot")

    def _taken(self, task: asyncio.Task[None]) -> None:
        self._task = None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.on_failure(error)
        else:
            self.check()

    def _timer_fired(self) -> None:
        self._timer = None
        self.check()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
