"""One node of an embedded cluster: a thread with an event loop of its own, as good as a process.

It can be stopped in order, killed, so that nothing more is said or written, and paused, so that sockets stay
open and nobody answers, as SIGSTOP does.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from ruslo.model.errors import RusloError
from ruslo.testing.cluster_network import ClusterNetwork, NodeLoop

if TYPE_CHECKING:
    from ruslo.broker.node.node import Node
    from ruslo.config.broker import BrokerConfig

ResultT = TypeVar("ResultT")

_CALL_S = 30.0


class ClusterNodeFailed(RusloError):
    """A node did not start, or ended by itself."""


class ClusterNode:
    def __init__(self, config: BrokerConfig, network: ClusterNetwork) -> None:
        self.node_id = config.node_id
        self._config = config
        self._network = network
        self._loop: NodeLoop | None = None
        self._node: Node | None = None
        self._thread: threading.Thread | None = None
        self._ready: Future[None] = Future()
        self._over: Future[None] = Future()
        self._wake = threading.Event()
        self._killed = False

    @property
    def running(self) -> bool:
        """Paused nodes are running, too."""
        return self._thread is not None and self._thread.is_alive() and not self._killed

    @property
    def paused(self) -> bool:
        return self.running and not self._wake.is_set()

    @property
    def is_ready(self) -> bool:
        """Clients may connect."""
        return self.running and self._ready.done()

    def launch(self) -> None:
        """Start without waiting; see ``wait_until_ready``."""
        if self.running:
            raise ClusterNodeFailed(f"node {self.node_id} is running already")
        self._ready, self._over = Future(), Future()
        self._wake.set()
        self._killed = False
        self._loop = NodeLoop(self.node_id, self._network)
        self._node = None
        self._thread = threading.Thread(target=self._run, name=f"ruslo node {self.node_id}", daemon=True)
        self._thread.start()

    def wait_until_ready(self, timeout_s: float) -> None:
        """Until clients may connect."""
        try:
            self._ready.result(timeout_s)
        except TimeoutError:
            self.kill()
            raise ClusterNodeFailed(
                f"node {self.node_id} was not ready within {timeout_s:g} s; a majority of the nodes must run"
            ) from None

    def stop(self, timeout_s: float) -> None:
        """In order, handing its leaderships over; raises if the node did not end well."""
        self.resume()
        if self.running:
            self._call(lambda node: node.request_stop())
        self._join(timeout_s)

    def kill(self) -> None:
        """As kill -9: the files stay as they are."""
        if not self.running:
            return
        self._killed = True
        if self._wake.is_set():
            self._call(self._die)
        else:
            self._wake.set()
        self._join(_CALL_S)

    def pause(self) -> None:
        """Return when it stands still."""
        if not self.running:
            raise ClusterNodeFailed(f"node {self.node_id} is not running")
        if self._wake.is_set():
            self._wake.clear()
            stands_still: Future[None] = Future()
            self._call(lambda node: self._stand_still(node, stands_still))
            stands_still.result(_CALL_S)

    def resume(self) -> None:
        self._wake.set()

    def ask(self, question: Callable[[Node], ResultT]) -> ResultT:
        """Put in the node's own thread, so that it sees nothing half done."""
        answer: Future[ResultT] = Future()

        def reply(node: Node) -> None:
            answer.set_result(question(node))

        self._call(reply)
        return answer.result(_CALL_S)

    # -- in the node's thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        loop = self._loop
        assert loop is not None
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(self._live())
        except BaseException as error:
            self._over.set_exception(error)
            if not self._ready.done():
                self._ready.set_exception(error)
        else:
            self._over.set_result(None)

    async def _live(self) -> None:
        from ruslo.broker.node.node import Node

        node = self._node = Node(self._config)
        starting = asyncio.ensure_future(node.start())
        stopping = asyncio.ensure_future(node.wait_for_stop())
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            self._ready.set_result(None)
            await stopping
        if self._killed:
            return
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            raise ClusterNodeFailed(f"node {self.node_id} was stopped before it was ready")
        await node.stop()
        if node.failure is not None:
            raise ClusterNodeFailed(f"node {self.node_id} stopped by itself: {node.failure}")

    def _die(self, node: Node) -> None:
        assert self._loop is not None
        self._loop.vanish()
        node.abandon()

    def _stand_still(self, node: Node, stands_still: Future[None]) -> None:
        stands_still.set_result(None)
        self._wake.wait()
        if self._killed:
            self._die(node)

    # -- in the caller's thread ------------------------------------------------------------------------------

    def _call(self, action: Callable[[Node], None]) -> None:
        """Have it done in the node's thread, soon."""
        loop, node = self._loop, self._node
        assert loop is not None
        assert node is not None
        loop.call_soon_threadsafe(action, node)

    def _join(self, timeout_s: float) -> None:
        if self._thread is None:
            return
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise ClusterNodeFailed(f"node {self.node_id} did not end within {timeout_s:g} s")
        self._thread = None
        if not self._killed:
            self._over.result()
