"""When the local copy of a partition counts as durable: ``flush.messages`` and ``flush.ms``.

- Without either, a record is durable once it is in the page cache.
- ``flush.messages``: an ack waits for the sync once that many records are unsynced. Later appends wait too.
- ``flush.ms``: a sync follows within this time, but acks do not wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ruslo.config.limits import LONG_MAX
from ruslo.config.log_config import LogConfig
from ruslo.storage.log import Log
from ruslo.storage.log_sync import SyncTargets

if TYPE_CHECKING:
    from ruslo.broker.partitions.flusher import Flusher


@dataclass(slots=True, eq=False)
class FlushPolicy:
    log: Log
    _flusher: Flusher
    _on_synced: Callable[[], None]
    """Called after every sync of the log."""
    _timer: asyncio.TimerHandle | None = None
    _acks_wait: bool = False
    """An ack waits for a sync that has not returned yet."""
    closed: bool = False
    """The files of the log may be gone: they must not be synced."""
    syncs: bool = field(init=False)
    _flush_messages: int = field(init=False)
    _flush_ms: int = field(init=False)

    def __post_init__(self) -> None:
        self.configure(self.log.config)

    def configure(self, config: LogConfig) -> None:
        self._flush_messages = config.flush_messages
        self._flush_ms = config.flush_ms
        self.syncs = config.flush_messages < LONG_MAX or config.flush_ms < LONG_MAX

    @property
    def is_due(self) -> bool:
        """Whether ``flush.messages`` records are unsynced."""
        return self.log.end_offset - self.log.recovery_point >= self._flush_messages

    def request_sync(self) -> None:
        self._flusher.request(self)

    def use_flusher(self, flusher: Flusher) -> None:
        """The log moved to another log directory: sync it with the others there."""
        waits = self._flusher.withdraw(self)
        self._flusher = flusher
        if waits or self._acks_wait:
            flusher.request(self)

    # -- the durable offset of a leader ----------------------------------------------------------------------

    def durable_when_elected(self) -> int | None:
        """The durable offset of a log that other leaders wrote; None until a sync returns."""
        if not self.syncs or self.log.recovery_point >= self.log.end_offset:
            return self.log.end_offset
        self._acks_wait = True
        self._flusher.request(self)
        return None

    def durable_after_append(self) -> int | None:
        """The durable offset after an append; None until a sync returns."""
        if self._flush_ms < LONG_MAX and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._flush_ms / 1000, self._sync_by_time)
        if self.is_due:
            self._acks_wait = True
            self._flusher.request(self)
        return None if self._acks_wait else self.log.end_offset

    def durable_after_sync(self) -> int:
        if self.is_due:
            self._flusher.request(self)
            return self.log.recovery_point
        self._acks_wait = False
        return self.log.end_offset

    # -- syncs -----------------------------------------------------------------------------------------------

    def _sync_by_time(self) -> None:
        self._timer = None
        if self.log.recovery_point < self.log.end_offset:
            self._flusher.request(self)

    def on_synced(self, synced: SyncTargets, now_ms: int) -> None:
        """The flusher has synced these files."""
        if not self.closed:
            self.log.mark_flushed(synced, now_ms)
            self._on_synced()

    def stop_waiting(self) -> None:
        """This broker stops leading the partition: acks no longer wait for a sync."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._acks_wait = False
