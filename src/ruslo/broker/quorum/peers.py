"""Connections to the other nodes of the quorum: one to each, opened when there is something to ask.

Death is noticed, not waited out: when a connection ends, somebody knocks at once at the same address. If the
answer is "connection refused", the peer's process has ended, and ``on_gone`` is told. No answer at all proves
nothing, so a silent host is left to the time-outs. A leader, which asks its voters nothing as long as they
fetch, keeps a connection to each of them for this alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ruslo.broker.quorum import wire
from ruslo.machines.controller.feature_image import KRAFT_VERSION
from ruslo.machines.raft.rpc import Answer, Ask, FetchAsk, VersionsAnswer, VersionsAsk, VoteAnswer, VoteAsk
from ruslo.machines.raft.voters import Endpoint
from ruslo.model.errors import ErrorCode, KafkaError, ProtocolError
from ruslo.net.channel import Connection, ConnectionSettings
from ruslo.net.errors import BrokerUnreachable

if TYPE_CHECKING:
    from collections.abc import Coroutine

logger = logging.getLogger(__name__)

_KNOCKS_S = (0.0, 0.03, 0.1, 0.3)
"""Pauses before each. A process that dies closes its sockets one by one: it may still seem to listen."""
_KEEP_INTERVAL_S = 1.0
"""Between two attempts to reach a node that is only to be watched."""


@dataclass(frozen=True, slots=True)
class PeerSettings:
    cluster_id: str
    client_id: str
    request_timeout_ms: int
    fetch_max_bytes: int
    snapshot_max_bytes: int


class Peers:
    def __init__(self, settings: PeerSettings, *, on_gone: Callable[[int], None]) -> None:
        self._settings = settings
        self._on_gone = on_gone
        self._connections: dict[int, asyncio.Task[Connection]] = {}
        self._addresses: dict[int, tuple[str, int]] = {}
        self._once_connected: set[tuple[int, tuple[str, int]]] = set()
        self._kept_at_s: dict[int, float] = {}
        self._tasks: set[asyncio.Task[object]] = set()
        self._closed = False

    def ask(
        self, node_id: int, endpoint: Endpoint, ask: Ask, on_answer: Callable[[Answer | None], None]
    ) -> None:
        """``on_answer`` is called once, later: None if no answer could be had."""
        self._spawn(self._ask(node_id, (endpoint.host, endpoint.port), ask, on_answer))

    def keep(self, node_id: int, endpoint: Endpoint) -> None:
        """It is alive: have a connection by whose end its death is noticed. Cheap to call often."""
        existing = self._connections.get(node_id)
        if existing is not None and (not existing.done() or not _has_failed(existing)):
            return
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._kept_at_s.get(node_id, now_s):
            self._kept_at_s[node_id] = now_s + _KEEP_INTERVAL_S
            self._spawn(self._reach(node_id, (endpoint.host, endpoint.port)))

    async def close(self) -> None:
        self._closed = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        connecting = list(self._connections.values())
        self._connections.clear()
        for attempt in connecting:
            attempt.cancel()
        for outcome in await asyncio.gather(*connecting, return_exceptions=True):
            if isinstance(outcome, Connection):
                await outcome.close()

    # -- asking ----------------------------------------------------------------------------------------------

    async def _ask(
        self,
        node_id: int,
        address: tuple[str, int],
        ask: Ask,
        on_answer: Callable[[Answer | None], None],
    ) -> None:
        answer: Answer | None = None
        try:
            async with asyncio.timeout(self._settings.request_timeout_ms / 1000):
                connection = await self._connect(node_id, address)
            answer = await self._exchange(connection, ask)
        except (KafkaError, ProtocolError, TimeoutError, OSError) as error:
            logger.debug("node %d at %s:%d does not answer %s: %s", node_id, *address, ask, error)
        if not self._closed:
            on_answer(answer)

    async def _exchange(self, connection: Connection, ask: Ask) -> Answer:
        if isinstance(ask, VersionsAsk):
            return _versions(connection)
        request_type = wire.REQUESTS[type(ask)]
        version = connection.version_for(request_type, wire.LOWEST_VERSION.get(request_type, 0))
        if isinstance(ask, VoteAsk) and ask.pre_vote and version < wire.PRE_VOTE_FROM:
            return VoteAnswer(ErrorCode.UNSUPPORTED_VERSION)
        wait_ms = ask.max_wait_ms if isinstance(ask, FetchAsk) else 0
        response = await connection.request(
            wire.encode(ask, version, self._settings),
            wire.RESPONSES[type(ask)],
            max_version=version,
            timeout_ms=self._settings.request_timeout_ms + wait_ms,
        )
        return wire.decode(ask, response)

    # -- connecting ------------------------------------------------------------------------------------------

    async def _connect(self, node_id: int, address: tuple[str, int]) -> Connection:
        """The connection there is, or a new one; those who need it at the same time share it."""
        existing = self._connections.get(node_id)
        if existing is not None and existing.done():
            if _has_failed(existing):
                existing = None
            elif self._addresses[node_id] != address:
                self._spawn(existing.result().close())  # It moved.
                existing = None
        if existing is None:
            self._addresses[node_id] = address
            existing = asyncio.create_task(self._open(node_id, address))
            existing.add_done_callback(_look_at)
            self._connections[node_id] = existing
        return await asyncio.shield(existing)

    async def _open(self, node_id: int, address: tuple[str, int]) -> Connection:
        settings = ConnectionSettings(
            client_id=self._settings.client_id,
            connect_timeout_ms=self._settings.request_timeout_ms,
            request_timeout_ms=self._settings.request_timeout_ms,
        )
        try:
            connection = await Connection.open(*address, settings)
        except BrokerUnreachable as error:
            if error.refused and (node_id, address) in self._once_connected and not self._closed:
                self._on_gone(node_id)
            raise
        self._once_connected.add((node_id, address))
        self._spawn(self._watch(node_id, address, connection))
        return connection

    async def _watch(self, node_id: int, address: tuple[str, int], connection: Connection) -> None:
        await connection.wait_lost()
        current = self._connections.get(node_id)
        if self._closed or current is None or not current.done() or current.exception() is not None:
            return
        if current.result() is not connection:
            return
        del self._connections[node_id]
        for pause_s in _KNOCKS_S:
            await asyncio.sleep(pause_s)
            if self._closed or await self._reach(node_id, address):
                return

    async def _reach(self, node_id: int, address: tuple[str, int]) -> bool:
        """Whether it is known what became of the node: it is there, or nobody listens any more."""
        try:
            await self._connect(node_id, address)
        except KafkaError as error:
            logger.info("there is no connection to node %d: %s", node_id, error.message)
            return isinstance(error, BrokerUnreachable) and error.refused
        return True

    def _spawn(self, work: Coroutine[None, None, object]) -> None:
        task: asyncio.Task[object] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _has_failed(attempt: asyncio.Task[Connection]) -> bool:
    """Of an attempt that is over: there is no connection (any more)."""
    return attempt.cancelled() or attempt.exception() is not None or attempt.result().closed


def _look_at(attempt: asyncio.Task[Connection]) -> None:
    """Whoever wanted the connection may have given up; then nobody else hears that it failed."""
    if not attempt.cancelled():
        attempt.exception()


def _versions(connection: Connection) -> VersionsAnswer:
    answer = connection.api_versions
    assert answer is not None, "an open connection has negotiated"
    for feature in answer.supported_features:
        if feature.name == KRAFT_VERSION:
            return VersionsAnswer(kraft_versions=(feature.min_version, feature.max_version))
    return VersionsAnswer(kraft_versions=(0, 0))
