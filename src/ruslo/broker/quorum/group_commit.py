"""Group commit: one sync for many appends.

Every append requests a sync. Appends of the same event-loop iteration, or made while a sync is running, share
the next one. It runs in a thread of its own, because the event loop also serves the data path.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from ruslo.storage.log import Log
from ruslo.storage.log_sync import SyncTargets


class GroupCommit:
    def __init__(
        self,
        log: Log,
        *,
        on_synced: Callable[[SyncTargets], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._log = log
        self._on_synced = on_synced
        self._on_failure = on_failure
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metadata-sync")
        self._sync_pending = False
        self._failed = False
        self._idle = asyncio.Event()
        self._idle.set()

    def request(self) -> None:
        if not self._sync_pending and not self._failed:
            self._sync_pending = True
            self._idle.clear()
            asyncio.get_running_loop().call_soon(self._start)

    def sync_now(self) -> None:
        """Sync now, blocking: for the start of the node."""
        targets = self._log.sync_targets()
        targets.run()
        self._on_synced(targets)

    async def finish(self) -> None:
        """Wait until everything appended is synced or a sync has failed; then end the thread."""
        await self._idle.wait()
        self._thread.shutdown(wait=True)

    def _start(self) -> None:
        targets = self._log.sync_targets()
        done = asyncio.get_running_loop().run_in_executor(self._thread, targets.run)
        done.add_done_callback(functools.partial(self._done, targets))

    def _done(self, targets: SyncTargets, done: asyncio.Future[None]) -> None:
        self._sync_pending = False
        error = done.exception()
        if error is not None:
            # Never retried: after a failed sync the kernel may have dropped the pages.
            self._failed = True
            self._on_failure(error)
        else:
            self._on_synced(targets)
            if self._log.end_offset > targets.end_offset:
                self.request()
        if not self._sync_pending:
            self._idle.set()
