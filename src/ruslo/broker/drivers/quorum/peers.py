"""Connections to the other nodes of the quorum: one to each, opened when there is something to ask.

Death is noticed, not waited out: when a connection ends, somebody knocks at once at the same address. If the
answer is "connection refused", the peer's process has ended, and ``on_gone`` is told. No answer at all proves
nothing, so a silent host is left to the time-outs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ruslo.broker.drivers.quorum import wire
from ruslo.client.connection import Connection, ConnectionSettings
from ruslo.client.errors import BrokerUnreachable
from ruslo.machines.controller.feature_image import KRAFT_VERSION
from ruslo.machines.raft.rpc import Answer, Ask, FetchAsk, VersionsAnswer, VersionsAsk, VoteAnswer, VoteAsk
from ruslo.machines.raft.voters import Endpoint
from ruslo.model.errors import ErrorCode, KafkaError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Coroutine

logger = logging.getLogger(__name__)


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
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def ask(
        self, node_id: int, endpoint: Endpoint, ask: Ask, on_answer: Callable[[Answer | None], None]
    ) -> None:
        """``on_answer`` is called once, later: None if no answer could be had."""
        self._spawn(self._ask(node_id, (endpoint.host, endpoint.port), ask, on_answer))

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
            failed = existing.cancelled() or existing.exception() is not None
            if failed or existing.result().closed:
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
        try:
            await self._connect(node_id, address)
        except KafkaError as error:
            logger.info("the connection to node %d has ended: %s", node_id, error.message)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


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
