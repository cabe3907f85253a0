"""A broker's way to the active controller, wherever that is: in this process, or on another node.

What a client asked goes there in an Envelope (KIP-590), what the broker asks for itself goes as it is. If the
one that was asked does not lead any more, or is gone, the next one is looked for, until the time is up. One
that has fallen silent is not waited for when there is another: a heartbeat that hung there would let the
broker's session with the new controller run out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from ruslo.broker.controller.driver import ControllerDriver
from ruslo.broker.controller.link import ControllerLink
from ruslo.broker.metadata.loader import MetadataDriver
from ruslo.broker.quorum.raft import RaftDriver
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.requests.forwarding import envelope, open_answer
from ruslo.machines.raft.voters import Endpoint
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError, ProtocolError
from ruslo.net.channel import error_of
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

_RETRY_MS = 20
_CATCH_UP_MS = 1_000
_CONNECT_MS = 5_000
"""Then it is tried anew: TCP itself tries ever more seldom, and may miss that the network is back."""
_ELECTION_MS = 5_000
"""If nobody leads for so long, nobody will soon: a majority of the controllers is not there."""
_LAST_WORD_MS = 100
"""Whoever leads no more may have done it, and the answer be under way: asking the next one would end in a
mistaken error, for example that a voter is not there which was just removed."""
_HOUSEKEEPING = (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
)
"""Nobody who asked for these looks for their effect in the metadata right after the answer."""


class ControllerGateway:
    def __init__(
        self,
        local: ControllerDriver | None,
        raft: RaftDriver,
        metadata: MetadataDriver,
        clock: Clock,
        *,
        node_id: int,
        request_timeout_ms: int,
    ) -> None:
        """``local``: the controller of this node, if it has that role."""
        self._local = local
        self._raft = raft
        self._metadata = metadata
        self._clock = clock
        self._request_timeout_ms = request_timeout_ms
        # Heartbeats must not wait behind a slow request of a client's.
        connect_timeout_ms = min(request_timeout_ms, _CONNECT_MS)
        self._own = ControllerLink(client_id=str(node_id), connect_timeout_ms=connect_timeout_ms)
        self._forwarded = ControllerLink(client_id=str(node_id), connect_timeout_ms=connect_timeout_ms)
        self._tasks: set[asyncio.Task[Message]] = set()
        self.serve_here: Callable[[Message, RequestContext], Awaitable[Message] | Message] | None = None
        """How this node's controller answers what is not a change of metadata."""

    @property
    def committed_offset(self) -> int:
        if self._local is not None and self._local.is_active:
            return self._local.committed_offset
        return self._metadata.image.offset

    def submit(
        self, request: Message, context: RequestContext | None = None, *, timeout_ms: int = 0
    ) -> asyncio.Future[Message]:
        """As ``ControllerDriver.submit``; NOT_CONTROLLER only if none could be found in time."""
        local = self._local
        if local is not None and local.is_active:
            return local.submit(request, context, timeout_ms=timeout_ms)

        def at_home(left_ms: int) -> Awaitable[Message] | None:
            if local is None or not local.is_active:
                return None
            return local.submit(request, context, timeout_ms=left_ms)

        task = asyncio.get_running_loop().create_task(
            self._submit(request, context, timeout_ms or self._request_timeout_ms, at_home)
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def forward(self, request: Message, context: RequestContext) -> Message:
        """Have the active controller's own handler answer it."""

        async def served_here(serve: Callable[..., Any]) -> Message:
            answer = serve(request, context)
            response: Message = await answer if isawaitable(answer) else answer
            return response

        def at_home(_left_ms: int) -> Awaitable[Message] | None:
            leads = self._raft.leader_id == self._raft.node_id
            return served_here(self.serve_here) if leads and self.serve_here is not None else None

        return await self._submit(request, context, self._request_timeout_ms, at_home)

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._own.close()
        await self._forwarded.close()

    # -- to another node -------------------------------------------------------------------------------------

    async def _submit(
        self,
        request: Message,
        context: RequestContext | None,
        timeout_ms: int,
        at_home: Callable[[int], Awaitable[Message] | None],
    ) -> Message:
        """``at_home``: what this node answers itself, in so many ms, if it leads by then."""
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        elected_by_ms = self._clock.monotonic_ms() + min(timeout_ms, _ELECTION_MS)
        problem: KafkaError | None = None
        while (left_ms := deadline_ms - self._clock.monotonic_ms()) > 0:
            endpoint = self._raft.leader_endpoint
            if endpoint is None and self._clock.monotonic_ms() > elected_by_ms:
                break
            try:
                if (answer := at_home(left_ms)) is not None:
                    return await answer
                if endpoint is not None and self._raft.leader_id != self._raft.node_id:
                    response = await self._while_it_leads(self._exchange(endpoint, request, context, left_ms))
                    if not isinstance(request, _HOUSEKEEPING):
                        await self._catch_up()
                    return response
            except (BrokerUnreachable, ConnectionLost) as error:
                problem = error
            except KafkaError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER:
                    raise
                problem = error
            await asyncio.sleep(_RETRY_MS / 1000)
        name = type(request).__name__
        reason = problem.message if problem is not None else "none has been elected"
        raise KafkaError(ErrorCode.NOT_CONTROLLER, f"there is no active controller to take {name}: {reason}")

    async def _while_it_leads(self, exchange: Coroutine[None, None, Message]) -> Message:
        asking = asyncio.ensure_future(exchange)
        try:
            await asyncio.wait(
                (asking, self._metadata.next_leader_change()), return_when=asyncio.FIRST_COMPLETED
            )
            if not asking.done():
                await asyncio.wait((asking,), timeout=_LAST_WORD_MS / 1000)
            if asking.done():
                return asking.result()
        finally:
            asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "another node became the active controller meanwhile")

    async def _exchange(
        self, endpoint: Endpoint, request: Message, context: RequestContext | None, timeout_ms: int
    ) -> Message:
        if context is None:
            response = await self._own.request(endpoint, request, timeout_ms=timeout_ms)
            code = getattr(response, "error_code", 0)
            if code:
                raise error_of(code, getattr(response, "error_message", None))
            return response
        sealed = envelope(request, context)
        answer = await self._forwarded.request(endpoint, sealed, timeout_ms=timeout_ms)
        assert isinstance(answer, EnvelopeResponse)
        if answer.error_code:
            raise error_of(answer.error_code, "the controller did not take what was passed on to it")
        try:
            return open_answer(request, context.api_version, answer.response_data or b"")
        except ProtocolError as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error

    async def _catch_up(self) -> None:
        """Whoever asks this broker next must find what it was just told to be done."""
        try:
            async with asyncio.timeout(_CATCH_UP_MS / 1000):
                await self._raft.catch_up()
        except (KafkaError, TimeoutError):
            logger.debug("the metadata of this broker may be a little behind what was answered")
