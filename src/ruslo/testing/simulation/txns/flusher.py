"""Syncs that take time; until they complete, written records can be lost."""

from __future__ import annotations

from ruslo.broker.partitions.flush_policy import FlushPolicy
from ruslo.broker.partitions.flusher import Flusher
from ruslo.broker.scheduling.scheduler import Scheduler
from ruslo.model.errors import StorageError
from ruslo.testing.simulation.clock import SimClock


class SimFlusher(Flusher):
    """Syncs a partition after a random delay; until then its tail can be lost."""

    def __init__(self, clock: SimClock, sync_ms: int) -> None:
        super().__init__("sim", clock, Scheduler(clock), disk_failed)
        self._sim_clock = clock
        self._sync_ms = sync_ms
        self._syncing: set[FlushPolicy] = set()

    def request(self, flush: FlushPolicy) -> None:
        if flush not in self._syncing:
            self._syncing.add(flush)
            delay_ms = self._sim_clock.random.randint(0, self._sync_ms)
            self._sim_clock.call_later(delay_ms, lambda: self._sync(flush))

    def _sync(self, flush: FlushPolicy) -> None:
        self._syncing.discard(flush)
        if not flush.closed:
            targets = flush.log.sync_targets()
            targets.run()
            flush.on_synced(targets, self._sim_clock.now_ms())


def disk_failed(error: StorageError) -> None:
    """Disk errors are not simulated."""
    raise error
