"""Fetches from all leaders at once, and returns what arrives first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ruslo.client.share.acknowledgements import Acknowledgements, SharePartitionId
from ruslo.client.share.acquired import Acquired
from ruslo.client.share.broker_session import Fetched, Outcomes
from ruslo.client.share.session import FetchLimits
from ruslo.client.share.share_client import ShareClient
from ruslo.machines.share_partition.states import AcquireMode

_LOOK_AGAIN_S: Final = 0.2
"""How long to wait for a response before the leaders are looked up again."""
_LOOKUP_S: Final = 0.5
"""The least time that a lookup of leaders may take, even for a poll without a timeout."""


class ShareFetcher:
    """Records that other leaders acquire meanwhile are returned by the next call."""

    def __init__(
        self, client: ShareClient, limits: FetchLimits, on_outcomes: Callable[[Mapping[int, Outcomes]], None]
    ) -> None:
        self._client = client
        self._limits = limits
        self._on_outcomes = on_outcomes
        self._running: dict[int, asyncio.Task[Fetched]] = {}
        self._acknowledging: set[asyncio.Task[None]] = set()
        self._turn = 0

    async def acquire(
        self, timeout_s: float, take_decided: Callable[[], Mapping[int, Acknowledgements]]
    ) -> list[Acquired]:
        """Wait for acquired records. Each fetch carries the acknowledgements for its leader."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout_s
        while not (acquired := self._take_ready()):
            self._client.changed.clear()
            left_s = deadline - clock()
            try:
                async with asyncio.timeout(max(left_s, _LOOKUP_S)):
                    leaders = await self._client.leaders()
            except TimeoutError:
                break
            self._start(leaders, take_decided())
            if left_s <= 0:
                break
            changed = asyncio.ensure_future(self._client.changed.wait())
            await asyncio.wait(
                [*self._running.values(), changed],
                timeout=min(left_s, _LOOK_AGAIN_S),
                return_when=asyncio.FIRST_COMPLETED,
            )
            changed.cancel()
        return acquired

    def acknowledge(self, acknowledgements: Mapping[int, Acknowledgements]) -> asyncio.Task[None] | None:
        """Send acknowledgements by themselves, in the background."""
        if not acknowledgements:
            return None
        task = asyncio.create_task(self._acknowledge(acknowledgements))
        self._acknowledging.add(task)
        task.add_done_callback(self._acknowledging.discard)
        return task

    async def settle(self) -> None:
        """Wait for the acknowledgements in progress."""
        if self._acknowledging:
            await asyncio.wait(list(self._acknowledging))

    async def stop(self) -> None:
        """Wait for the requests in progress: a session cannot be closed in the middle of one."""
        tasks = [*self._running.values(), *self._acknowledging]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self._limits.max_wait_ms / 1000 + 1)
            for task in late:
                task.cancel()
            self._take_ready()
        self._running.clear()

    def _start(
        self,
        leaders: Mapping[int, Sequence[SharePartitionId]],
        acknowledgements: Mapping[int, Acknowledgements],
    ) -> None:
        rest = dict(acknowledgements)
        for node_id in self._nodes_to_fetch(leaders):
            self._running[node_id] = asyncio.create_task(
                self._client.fetch(node_id, leaders[node_id], self._limits, rest.pop(node_id, None))
            )
        self.acknowledge(rest)

    def _nodes_to_fetch(self, leaders: Mapping[int, Sequence[SharePartitionId]]) -> list[int]:
        if self._limits.mode is not AcquireMode.RECORD_LIMIT:
            return [node_id for node_id in leaders if node_id not in self._running]
        # The limit is for all leaders together, so one at a time is fetched from.
        if self._running or not leaders:
            return []
        self._turn += 1
        nodes = sorted(leaders)
        return [nodes[self._turn % len(nodes)]]

    def _take_ready(self) -> list[Acquired]:
        acquired: list[Acquired] = []
        for node_id, task in list(self._running.items()):
            if task.done():
                del self._running[node_id]
                fetched = task.result()
                self._on_outcomes({node_id: fetched.outcomes})
                acquired += fetched.acquired
        return acquired

    async def _acknowledge(self, acknowledgements: Mapping[int, Acknowledgements]) -> None:
        self._on_outcomes(await self._client.acknowledge(acknowledgements))
