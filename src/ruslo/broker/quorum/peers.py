"""Connections to the other nodes of the quorum: one to each, opened with the first request.

A process that ends is noticed without waiting for a timeout. When a connection is lost, a liveness probe
connects to the same address. "Connection refused" proves that the peer's process has ended, and ``on_gone``
is called. No reply proves nothing, so a silent host is left to the timeouts. A leader sends its voters no
requests while they fetch, so it keeps a connection to each of them just for this.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from ruslo.broker.quorum import rpc_codec
from ruslo.broker.scheduling.background_tasks import BackgroundTasks, cancel_all
from ruslo.machines.controller.feature_image import KRAFT_VERSION
from ruslo.machines.raft.rpc import (
    RaftFetchRequest,
    RaftRequest,
    RaftResponse,
    RaftVoteRequest,
    RaftVoteResponse,
    VersionsRequest,
    VersionsResponse,
)
from ruslo.machines.raft.voters import Endpoint
from ruslo.model.errors import ErrorCode, KafkaError, ProtocolError
from ruslo.net.channel import Channel, ChannelSettings
from ruslo.net.channel_security import UNPROTECTED, ChannelSecurity
from ruslo.net.errors import BrokerUnreachable
from ruslo.net.tls.errors import TlsError
from ruslo.protocol.apis import API_BY_KEY

logger = logging.getLogger(__name__)

_PROBE_DELAYS_S = (0.0, 0.03, 0.1, 0.3)
"""The delay before each liveness probe. A dying process closes its sockets one by one, so it may still seem
to listen."""
_WATCH_INTERVAL_S = 1.0
"""Interval between two attempts to connect to a node that is only watched."""
_LOGIN_ERRORS = frozenset(
    (ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.UNSUPPORTED_SASL_MECHANISM, ErrorCode.ILLEGAL_SASL_STATE)
)


@dataclass(frozen=True, slots=True)
class PeerSettings:
    cluster_id: str
    client_id: str
    request_timeout_ms: int
    fetch_max_bytes: int
    snapshot_max_bytes: int


class Peers:
    def __init__(
        self,
        settings: PeerSettings,
        *,
        on_gone: Callable[[int], None],
        security: ChannelSecurity = UNPROTECTED,
    ) -> None:
        self._settings = settings
        self._security = security
        self._on_gone = on_gone
        self._connections: dict[int, asyncio.Task[Channel]] = {}
        self._addresses: dict[int, tuple[str, int]] = {}
        self._once_connected: set[tuple[int, tuple[str, int]]] = set()
        self._watch_again_at_s: dict[int, float] = {}
        self._refusals: dict[int, str] = {}
        """Why a node refuses this one, as it was logged last."""
        self._tasks = BackgroundTasks()
        self._closed = False

    def send(
        self,
        node_id: int,
        endpoint: Endpoint,
        request: RaftRequest,
        on_response: Callable[[RaftResponse | None], None],
    ) -> None:
        """``on_response`` is called once, later: None if the request failed."""
        self._tasks.start(self._send(node_id, (endpoint.host, endpoint.port), request, on_response))

    def watch(self, node_id: int, endpoint: Endpoint) -> None:
        """The node is alive: hold a connection, so that the end of its process is noticed. Cheap to call
        often."""
        existing = self._connections.get(node_id)
        if existing is not None and (not existing.done() or not _has_failed(existing)):
            return
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._watch_again_at_s.get(node_id, now_s):
            self._watch_again_at_s[node_id] = now_s + _WATCH_INTERVAL_S
            self._tasks.start(self._reach(node_id, (endpoint.host, endpoint.port)))

    async def close(self) -> None:
        self._closed = True
        await self._tasks.stop()
        connecting = list(self._connections.values())
        self._connections.clear()
        await cancel_all(*connecting)
        for outcome in await asyncio.gather(*connecting, return_exceptions=True):
            if isinstance(outcome, Channel):
                await outcome.close()

    # -- requests --------------------------------------------------------------------------------------------

    async def _send(
        self,
        node_id: int,
        address: tuple[str, int],
        request: RaftRequest,
        on_response: Callable[[RaftResponse | None], None],
    ) -> None:
        response: RaftResponse | None = None
        try:
            async with asyncio.timeout(self._settings.request_timeout_ms / 1000):
                connection = await self._connect(node_id, address)
            response = await self._exchange(connection, request)
            if response.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                fix = "Add the principal of this node to super.users, or allow it CLUSTER_ACTION"
                self._log_refusal(node_id, address, f"CLUSTER_AUTHORIZATION_FAILED. {fix}")
        except (KafkaError, ProtocolError, TimeoutError, OSError) as error:
            logger.debug("node %d at %s:%d did not respond to %s: %s", node_id, *address, request, error)
        if not self._closed:
            on_response(response)

    async def _exchange(self, connection: Channel, request: RaftRequest) -> RaftResponse:
        if isinstance(request, VersionsRequest):
            return _versions(connection)
        request_type = rpc_codec.REQUESTS[type(request)]
        version = connection.version_for(request_type, rpc_codec.LOWEST_VERSION.get(request_type, 0))
        if (
            isinstance(request, RaftVoteRequest)
            and request.pre_vote
            and version < rpc_codec.PRE_VOTE_MIN_VERSION
        ):
            return RaftVoteResponse(ErrorCode.UNSUPPORTED_VERSION)
        wait_ms = request.max_wait_ms if isinstance(request, RaftFetchRequest) else 0
        response = await connection.request(
            rpc_codec.encode(request, version, self._settings),
            API_BY_KEY[request_type.API_KEY].response,
            max_version=version,
            timeout_ms=self._settings.request_timeout_ms + wait_ms,
        )
        return rpc_codec.decode(response)

    # -- connecting ------------------------------------------------------------------------------------------

    async def _connect(self, node_id: int, address: tuple[str, int]) -> Channel:
        """The open connection or a new one; concurrent callers share the attempt."""
        existing = self._connections.get(node_id)
        if existing is not None and existing.done():
            if _has_failed(existing):
                existing = None
            elif self._addresses[node_id] != address:
                self._tasks.start(existing.result().close())  # Its address changed.
                existing = None
        if existing is None:
            self._addresses[node_id] = address
            existing = asyncio.create_task(self._open(node_id, address))
            existing.add_done_callback(_retrieve_error)
            self._connections[node_id] = existing
        return await asyncio.shield(existing)

    async def _open(self, node_id: int, address: tuple[str, int]) -> Channel:
        settings = ChannelSettings(
            client_id=self._settings.client_id,
            connect_timeout_ms=self._settings.request_timeout_ms,
            request_timeout_ms=self._settings.request_timeout_ms,
            security=self._security,
        )
        try:
            connection = await Channel.open(*address, settings)
        except BrokerUnreachable as error:
            if error.refused and (node_id, address) in self._once_connected and not self._closed:
                self._on_gone(node_id)
            if isinstance(error.__cause__, TlsError):
                self._log_refusal(node_id, address, str(error.__cause__))
            raise
        except KafkaError as error:
            if error.code in _LOGIN_ERRORS:
                self._log_refusal(node_id, address, str(error))
            raise
        self._once_connected.add((node_id, address))
        self._tasks.start(self._probe_when_lost(node_id, address, connection))
        return connection

    def _log_refusal(self, node_id: int, address: tuple[str, int], reason: str) -> None:
        """Requests are repeated several times a second: the same reason is logged once."""
        if self._refusals.get(node_id) != reason:
            self._refusals[node_id] = reason
            logger.warning("node %d at %s:%d refuses this node: %s", node_id, *address, reason)

    async def _probe_when_lost(self, node_id: int, address: tuple[str, int], connection: Channel) -> None:
        await connection.wait_closed()
        current = self._connections.get(node_id)
        if self._closed or current is None or not current.done() or current.exception() is not None:
            return
        if current.result() is not connection:
            return
        del self._connections[node_id]
        for pause_s in _PROBE_DELAYS_S:
            await asyncio.sleep(pause_s)
            if self._closed or await self._reach(node_id, address):
                return

    async def _reach(self, node_id: int, address: tuple[str, int]) -> bool:
        """Connect to the node; True if that showed whether it is alive or its process has ended."""
        try:
            await self._connect(node_id, address)
        except KafkaError as error:
            logger.info("cannot connect to node %d: %s", node_id, error.message)
            return isinstance(error, BrokerUnreachable) and error.refused
        return True


def _has_failed(attempt: asyncio.Task[Channel]) -> bool:
    """Whether a finished attempt has left no open connection."""
    return attempt.cancelled() or attempt.exception() is not None or attempt.result().closed


def _retrieve_error(attempt: asyncio.Task[Channel]) -> None:
    """The callers may have given up; mark the error as retrieved."""
    if not attempt.cancelled():
        attempt.exception()


def _versions(connection: Channel) -> VersionsResponse:
    response = connection.api_versions
    assert response is not None, "an open connection has negotiated"
    for feature in response.supported_features:
        if feature.name == KRAFT_VERSION:
            return VersionsResponse(kraft_versions=(feature.min_version, feature.max_version))
    return VersionsResponse(kraft_versions=(0, 0))
