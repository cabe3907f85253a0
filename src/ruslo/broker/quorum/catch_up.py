"""Waits until this node's metadata holds everything that is committed on any node.

A broker that has passed a change on to the active controller waits so before it answers: whoever asks it next
must find what it was just told to be done.
"""

from __future__ import annotations

import asyncio

from ruslo.broker.quorum.peers import Peers
from ruslo.machines.raft.machine import RaftMachine
from ruslo.machines.raft.quorum_state import NO_NODE
from ruslo.machines.raft.rpc import Answer, FetchAnswer, FetchAsk, ReplicaKey
from ruslo.model.errors import ErrorCode, KafkaError

_PROBE_ID = -1
"""A connection besides those of the quorum: behind a fetch that waits there nothing would be answered."""


class CatchUp:
    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._applied = 0
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    async def wait(self, machine: RaftMachine) -> None:
        """Raises KafkaError if the leader cannot be asked."""
        high_watermark = machine.high_watermark
        if machine.leader_id != machine.node_id:
            high_watermark = await self._ask_high_watermark(machine)
        if self._applied < high_watermark:
            reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((high_watermark, reached))
            await reached

    def applied(self, offset: int) -> None:
        """The listeners have been given everything before ``offset``."""
        self._applied = offset
        if self._waiters:
            for wanted, reached in self._waiters:
                if wanted <= offset and not reached.done():
                    reached.set_result(None)
            self._waiters = [waiter for waiter in self._waiters if waiter[0] > offset]

    async def _ask_high_watermark(self, machine: RaftMachine) -> int:
        endpoint = machine.leader_endpoint
        if endpoint is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "nobody leads the metadata log")
        told: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        probe = FetchAsk(
            epoch=machine.epoch,
            replica=ReplicaKey(NO_NODE),
            offset=machine.log.end_offset,
            last_epoch=machine.log.last_epoch,
            high_watermark=machine.high_watermark,
            max_wait_ms=0,
        )

        def tell(answer: Answer | None) -> None:
            if not told.done():  # Whoever waits may have given up.
                told.set_result(answer)

        self._peers.ask(_PROBE_ID, endpoint, probe, tell)
        answer = await told
        if not isinstance(answer, FetchAnswer) or answer.error is not ErrorCode.NONE:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "the leader of the metadata log did not answer")
        return answer.high_watermark
