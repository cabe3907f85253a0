"""Waits until this node's metadata contains everything that is committed on any node.

A broker that forwarded a change to the active controller waits for it before it responds, so that the next
request to this broker sees the change.
"""

from __future__ import annotations

import asyncio

from ruslo.broker.quorum.peers import Peers
from ruslo.machines.raft.machine import RaftMachine
from ruslo.machines.raft.quorum_state import NO_NODE
from ruslo.machines.raft.rpc import RaftFetchRequest, RaftFetchResponse, RaftResponse, ReplicaKey
from ruslo.model.errors import ErrorCode, KafkaError

_PROBE_ID = -1
"""A connection of its own: on the quorum's connection the request would queue behind a waiting fetch."""


class CatchUp:
    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._applied = 0
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    async def wait(self, machine: RaftMachine) -> None:
        """Raises KafkaError if the leader does not respond."""
        high_watermark = machine.high_watermark
        if machine.leader_id != machine.node_id:
            high_watermark = await self._fetch_high_watermark(machine)
        if self._applied < high_watermark:
            reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((high_watermark, reached))
            await reached

    def advance(self, offset: int) -> None:
        """Everything before ``offset`` has been delivered to the listeners."""
        self._applied = offset
        if self._waiters:
            for wanted, reached in self._waiters:
                if wanted <= offset and not reached.done():
                    reached.set_result(None)
            self._waiters = [waiter for waiter in self._waiters if waiter[0] > offset]

    async def _fetch_high_watermark(self, machine: RaftMachine) -> int:
        endpoint = machine.leader_endpoint
        if endpoint is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "The metadata log has no leader")
        received: asyncio.Future[RaftResponse | None] = asyncio.get_running_loop().create_future()
        probe = RaftFetchRequest(
            epoch=machine.epoch,
            replica=ReplicaKey(NO_NODE),
            offset=machine.log.end_offset,
            last_epoch=machine.log.last_epoch,
            high_watermark=machine.high_watermark,
            max_wait_ms=0,
        )

        def complete(response: RaftResponse | None) -> None:
            if not received.done():  # The caller may have given up.
                received.set_result(response)

        self._peers.send(_PROBE_ID, endpoint, probe, complete)
        response = await received
        if not isinstance(response, RaftFetchResponse) or response.error is not ErrorCode.NONE:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "The leader of the metadata log did not respond")
        return response.high_watermark
