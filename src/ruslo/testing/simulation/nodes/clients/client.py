"""The base of simulated clients: a process on its own host with the real client inside."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from ruslo.client.wire.cluster import Cluster
from ruslo.model.errors import KafkaError
from ruslo.net.channel import ChannelSettings
from ruslo.testing.histories import Kind
from ruslo.testing.histories.events import Call
from ruslo.testing.simulation.nodes.cluster import SimCluster
from ruslo.testing.simulation.nodes.invariants import ACKED_KEPT
from ruslo.testing.simulation.nodes.process_loop import ProcessLoop
from ruslo.testing.simulation.txns.process import History

REQUEST_TIMEOUT_MS = 1_300
API_TIMEOUT_MS = 4_000
LONG_API_TIMEOUT_MS = 60_000


class SimClient(ABC):
    """Set ``stopping`` to end the client; ``done`` is set when it has ended."""

    invariant = ACKED_KEPT
    """The invariant that ``problems`` break."""

    def __init__(self, name: str, cluster: SimCluster, history: History) -> None:
        self.name = name
        self.random = cluster.clock.random
        self.stopping = False
        self.done = False
        self.problems: list[str] = []
        self._cluster = cluster
        self._history = history
        self.process: ProcessLoop | None = None

    def start(self) -> None:
        self.process = self._cluster.spawn(self.name, self._main)

    async def _main(self) -> None:
        await self.run()
        self.done = True

    @abstractmethod
    def run(self) -> Coroutine[Any, Any, None]: ...

    def connect(self, *, with_long_timeout: bool = False) -> Cluster:
        return Cluster(
            self._cluster.bootstrap,
            settings=ChannelSettings(
                client_id=self.name,
                connect_timeout_ms=REQUEST_TIMEOUT_MS,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
            ),
            api_timeout_ms=LONG_API_TIMEOUT_MS if with_long_timeout else API_TIMEOUT_MS,
        )

    def is_stopping(self) -> bool:
        return self.stopping

    def now_ms(self) -> int:
        return self._cluster.clock.now_ms()

    async def pause(self, max_ms: int) -> None:
        await asyncio.sleep(self.random.randint(0, max_ms) / 1000)

    @contextmanager
    def recorded(self, call: Call, failed: Kind = Kind.INFO) -> Iterator[list[Call]]:
        """Record a call, and its failure or success; what the block appends replaces the successful call."""
        self.invoke(call)
        calls = [call]
        try:
            yield calls
        except KafkaError as error:
            self.complete(failed, call, str(error))
            raise
        self.complete(Kind.OK, calls[-1])

    def invoke(self, call: Call) -> None:
        self._history.write(self.name, Kind.INVOKE, call)

    def complete(self, kind: Kind, call: Call, note: str = "") -> None:
        self._history.write(self.name, kind, call, note)
