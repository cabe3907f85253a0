"""A broker's path to the active controller, in this process or on another node.

Requests of clients are forwarded in an Envelope (KIP-590); the broker's own requests go as they are. If a
node is no longer the active controller, or is gone, the gateway finds the next one until the request times
out. It does not wait for a silent controller when there is a new one: a heartbeat that hangs would let the
broker's session with the new controller expire.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, TypeAlias

from ruslo.broker.controller.driver import ControllerDriver
from ruslo.broker.controller.link import ControllerLink
from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.broker.quorum.raft import RaftDriver
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.requests.forwarding import envelope, open_response
from ruslo.broker.scheduling.background_tasks import BackgroundTasks
from ruslo.machines.raft.voters import Endpoint
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError, ProtocolError
from ruslo.net.channel import error_of
from ruslo.net.channel_security import UNPROTECTED, ChannelSecurity
from ruslo.net.errors import BrokerUnreachable, ConnectionLost
from ruslo.protocol.message import Message
from ruslo.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from ruslo.protocol.messages.alter_partition_request import AlterPartitionRequest
from ruslo.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from ruslo.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ruslo.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from ruslo.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from ruslo.protocol.messages.envelope_response import EnvelopeResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine

logger = logging.getLogger(__name__)

_RETRY_BACKOFF_MS = 20
_CATCH_UP_TIMEOUT_MS = 1_000
_CONNECT_TIMEOUT_MS = 5_000
"""Connecting is retried after this time: TCP backs off ever longer and may miss that the network is back."""
_ELECTION_TIMEOUT_MS = 5_000
"""Without a leader for this long, a majority of the controllers is unavailable."""
_LATE_RESPONSE_MS = 100
"""How long to wait for the response of a controller that no longer leads. It may have made the change: a
retry would fail wrongly, for example because a voter was just removed."""
_LIFECYCLE_REQUESTS = (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
)
"""The senders of these requests do not expect their effect in the metadata right after the response."""


LocalHandler: TypeAlias = "Callable[[Message, RequestContext], Awaitable[Message] | Message]"


class ControllerGateway:
    def __init__(
        self,
        local: ControllerDriver | None,
        serve_locally: LocalHandler | None,
        raft: RaftDriver,
        metadata: MetadataLoader,
        clock: Clock,
        *,
        node_id: int,
        request_timeout_ms: int,
        security: ChannelSecurity = UNPROTECTED,
    ) -> None:
        """``local``: the controller of this node, if it has that role; ``serve_locally`` runs its
        handlers."""
        self._local = local
        self._serve_locally = serve_locally
        self._raft = raft
        self._metadata = metadata
        self._clock = clock
        self._request_timeout_ms = request_timeout_ms
        # A heartbeat must not queue behind a slow request of a client.
        connect_timeout_ms = min(request_timeout_ms, _CONNECT_TIMEOUT_MS)
        self._own, self._forwarded = (
            ControllerLink(client_id=str(node_id), connect_timeout_ms=connect_timeout_ms, security=security)
            for _ in range(2)
        )
        self._tasks = BackgroundTasks()

    @property
    def committed_offset(self) -> int:
        if self._local is not None and self._local.is_active:
            return self._local.committed_offset
        return self._metadata.image.offset

    def submit(
        self, request: Message, context: RequestContext | None = None, *, timeout_ms: int = 0
    ) -> asyncio.Future[Message]:
        """As ``ControllerDriver.submit``; NOT_CONTROLLER only if no active controller is found in time."""
        local = self._local
        if local is not None and local.is_active:
            return local.submit(request, context, timeout_ms=timeout_ms)

        def local_response(remaining_ms: int) -> Awaitable[Message] | None:
            if local is None or not local.is_active:
                return None
            return local.submit(request, context, timeout_ms=remaining_ms)

        return self._tasks.start(
            self._submit(request, context, timeout_ms or self._request_timeout_ms, local_response)
        )

    async def forward(self, request: Message, context: RequestContext) -> Message:
        """Have the handler of the active controller respond."""

        async def serve(serve_locally: LocalHandler) -> Message:
            response = serve_locally(request, context._replace(forwarded=True))
            return await response if isawaitable(response) else response

        def local_response(_remaining_ms: int) -> Awaitable[Message] | None:
            leads = self._raft.leader_id == self._raft.node_id
            return serve(self._serve_locally) if leads and self._serve_locally is not None else None

        timeout_ms: int = getattr(request, "timeout_ms", 0)
        return await self._submit(
            request, context, timeout_ms if timeout_ms > 0 else self._request_timeout_ms, local_response
        )

    async def stop(self) -> None:
        await self._tasks.stop()
        await self._own.close()
        await self._forwarded.close()

    # -- to another node -------------------------------------------------------------------------------------

    async def _submit(
        self,
        request: Message,
        context: RequestContext | None,
        timeout_ms: int,
        local_response: Callable[[int], Awaitable[Message] | None],
    ) -> Message:
        """``local_response``: this node's own response within the given milliseconds; None if it does not
        lead."""
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        election_deadline_ms = self._clock.monotonic_ms() + min(timeout_ms, _ELECTION_TIMEOUT_MS)
        problem: KafkaError | None = None
        while (remaining_ms := deadline_ms - self._clock.monotonic_ms()) > 0:
            endpoint = self._raft.leader_endpoint
            if endpoint is None and self._clock.monotonic_ms() > election_deadline_ms:
                break
            try:
                if (local := local_response(remaining_ms)) is not None:
                    return await local
                if endpoint is not None and self._raft.leader_id != self._raft.node_id:
                    response = await self._while_leading(
                        self._exchange(endpoint, request, context, remaining_ms)
                    )
                    if not isinstance(request, _LIFECYCLE_REQUESTS):
                        await self._catch_up()
                    return response
            except (BrokerUnreachable, ConnectionLost) as error:
                problem = error
            except KafkaError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER:
                    raise
                problem = error
            await asyncio.sleep(_RETRY_BACKOFF_MS / 1000)
        name = type(request).__name__
        reason = problem.message if problem is not None else "no leader is elected"
        raise KafkaError(ErrorCode.NOT_CONTROLLER, f"No active controller handled {name}: {reason}")

    async def _while_leading(self, exchange: Coroutine[None, None, Message]) -> Message:
        exchange_task = asyncio.ensure_future(exchange)
        try:
            await asyncio.wait(
                (exchange_task, self._metadata.next_leader_change()), return_when=asyncio.FIRST_COMPLETED
            )
            if not exchange_task.done():
                await asyncio.wait((exchange_task,), timeout=_LATE_RESPONSE_MS / 1000)
            if exchange_task.done():
                return exchange_task.result()
        finally:
            exchange_task.cancel()
        await asyncio.gather(exchange_task, return_exceptions=True)
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "Another node became the active controller")

    async def _exchange(
        self, endpoint: Endpoint, request: Message, context: RequestContext | None, timeout_ms: int
    ) -> Message:
        if context is None:
            response = await self._own.request(endpoint, request, timeout_ms=timeout_ms)
            code = getattr(response, "error_code", 0)
            if code:
                raise error_of(code, getattr(response, "error_message", None))
            return response
        response = await self._forwarded.request(endpoint, envelope(request, context), timeout_ms=timeout_ms)
        assert isinstance(response, EnvelopeResponse)
        if response.error_code:
            raise error_of(response.error_code, "The controller rejected the forwarded request")
        try:
            return open_response(request, context.api_version, response.response_data or b"")
        except ProtocolError as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error

    async def _catch_up(self) -> None:
        """The next request to this broker must see the change."""
        try:
            async with asyncio.timeout(_CATCH_UP_TIMEOUT_MS / 1000):
                await self._raft.catch_up()
        except (KafkaError, TimeoutError):
            logger.debug("the metadata of this broker may lag behind the response")
