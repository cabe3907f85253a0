"""Takes snapshots of the metadata when they are due, without stopping the node.

The state belongs to a listener, which changes it in place when it is given committed records. So the records
of a snapshot are gathered over several turns of the event loop while the feed holds back; encoding and
writing happen in a thread.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from ruslo.broker.quorum.commit_feed import CommitFeed
from ruslo.broker.quorum.metadata_batches import VersionedRecord
from ruslo.machines.raft.snapshots import SnapshotId, SnapshotPolicy
from ruslo.model.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Coroutine

SnapshotSource: TypeAlias = Callable[[], Iterable[VersionedRecord]]
"""The state as records, metadata.version first, the rest in Kafka's order; nothing is applied meanwhile."""
SnapshotWriter: TypeAlias = "Callable[[SnapshotId, list[VersionedRecord]], Coroutine[None, None, None]]"

_RECORDS_PER_TURN: Final = 125

log = logging.getLogger(__name__)


class Snapshotter:
    def __init__(
        self,
        policy: SnapshotPolicy,
        feed: CommitFeed,
        clock: Clock,
        *,
        write: SnapshotWriter,
        resume: Callable[[], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """``resume`` is called when the feed may deliver again."""
        self.source: SnapshotSource | None = None
        self._policy = policy
        self._feed = feed
        self._clock = clock
        self._write = write
        self._resume = resume
        self._on_failure = on_failure
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0
        self._task: asyncio.Task[None] | None = None

    def check(self) -> None:
        """Start a snapshot if one is due, or set the timer for when it will be; cheap when neither."""
        if self.source is None or self._task is not None:
            return
        if self._feed.in_transaction or self._feed.amid_batch:
            return
        now_ms = self._clock.monotonic_ms()
        if self._policy.due(now_ms):
            self._cancel_timer()
            self._policy.taken()
            self._feed.hold()
            take = self._take(self._feed.applied, self.source)
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
        """A snapshot under way is finished: it is nearly always there already."""
        self.source = None
        self._cancel_timer()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _take(self, id: SnapshotId, source: SnapshotSource) -> None:
        records: list[VersionedRecord] = []
        try:
            remaining = iter(source())
            while chunk := list(itertools.islice(remaining, _RECORDS_PER_TURN)):
                records += chunk
                await asyncio.sleep(0)
        finally:
            self._feed.release()
        self._resume()
        await self._write(id, records)
        log.info("took a metadata snapshot at offset %d, epoch %d: %d records", *id, len(records))
        while records:
            # To free thousands at once takes long, as it did to make them.
            del records[-_RECORDS_PER_TURN:]
            await asyncio.sleep(0)

    def _taken(self, task: asyncio.Task[None]) -> None:
        self._task = None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._on_failure(error)
        else:
            self.check()

    def _timer_fired(self) -> None:
        self._timer = None
        self.check()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
