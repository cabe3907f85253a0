"""A client as a script: a generator that sends requests and sleeps, and may be paused at each ``yield``.

A script yields what it waits for and resumes with the result: None from ``Sleep``, and the reply or None
(timeout) from ``SendRequest``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from ruslo.protocol.message import Message
from ruslo.testing.histories import Event, Kind
from ruslo.testing.histories.events import Call
from ruslo.testing.simulation.connection import Connection, OnReply
from ruslo.testing.simulation.txns.cluster import SimTxnCluster
from ruslo.testing.simulation.txns.node import SimTxnNode

REQUEST_TIMEOUT_MS = 1_500

T = TypeVar("T")
MessageT = TypeVar("MessageT", bound=Message)


@dataclass(frozen=True, slots=True)
class Sleep:
    duration_ms: int


@dataclass(frozen=True, slots=True)
class SendRequest:
    node: int
    deliver: Callable[[SimTxnNode, OnReply[Any]], None]
    timeout_ms: int
    strict: bool = False
    """Whether to use a strict connection; see ``Connection``."""
    is_batch: bool = False
    """Whether this is Produce, which has its own connection, as in real clients."""


Script: TypeAlias = Generator[Sleep | SendRequest, Any, T]


class History:
    """The operations of all processes of a run, in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, process: str, kind: Kind, call: Call, note: str = "") -> None:
        self.events.append(Event(len(self.events), process, kind, call, note))


class SimProcess:
    """Runs one script, which has one request in flight at a time."""

    def __init__(self, name: str, cluster: SimTxnCluster, history: History) -> None:
        self.name = name
        self.alive = True
        self.random = cluster.clock.random
        self.cluster = cluster
        self._clock = cluster.clock
        self._history = history
        self._connections: dict[tuple[int, bool, bool], Connection[Any]] = {}
        self._paused_until_ms = 0
        self._script: Script[None] | None = None

    def start(self, script: Script[None]) -> None:
        self._script = script
        self._resume(None)

    def kill(self) -> None:
        """Stop the process; its requests in flight may still arrive."""
        self.alive = False

    def pause(self, duration_ms: int) -> None:
        """Pause the process; replies arrive meanwhile."""
        self._paused_until_ms = self._clock.monotonic_ms() + duration_ms

    # -- for scripts -----------------------------------------------------------------------------------------

    def call(
        self, node: int, request: Message, version: int, response: type[MessageT], *, strict: bool = False
    ) -> Script[MessageT | None]:
        def deliver(receiver: SimTxnNode, on_reply: OnReply[Message]) -> None:
            receiver.handle(request, version, on_reply)

        reply = yield SendRequest(node, deliver, REQUEST_TIMEOUT_MS, strict)
        assert reply is None or isinstance(reply, response)
        return reply

    def invoke(self, call: Call) -> None:
        self._history.write(self.name, Kind.INVOKE, call)

    def complete(self, kind: Kind, call: Call, note: str = "") -> None:
        self._history.write(self.name, kind, call, note)

    # -- running ---------------------------------------------------------------------------------------------

    def _resume(self, value: object) -> None:
        if not self.alive:
            return
        if self._clock.monotonic_ms() < self._paused_until_ms:
            self._clock.call_at(self._paused_until_ms, lambda: self._resume(value))
            return
        assert self._script is not None
        try:
            step = self._script.send(value)
        except StopIteration:
            self.alive = False
            return
        if isinstance(step, Sleep):
            self._clock.call_later(step.duration_ms, lambda: self._resume(None))
        else:
            self._send(step)

    def _send(self, request: SendRequest) -> None:
        key = (request.node, request.strict, request.is_batch)
        connection = self._connections.get(key)
        if connection is None:
            faults = self.cluster.faults.batches if request.is_batch else self.cluster.faults.clients
            connection = Connection(self._clock, faults, strict=request.strict)
            self._connections[key] = connection

        def deliver(on_reply: OnReply[Any]) -> None:
            self.cluster.deliver(request.node, lambda node: request.deliver(node, on_reply))

        def complete(reply: object) -> None:
            if reply is None:
                # After a timeout the client closes the connection and opens another one.
                connection.close()
                self._connections.pop(key, None)
            self._resume(reply)

        connection.call(deliver, complete, request.timeout_ms)
