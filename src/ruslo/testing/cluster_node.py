"""One node of an embedded cluster: a thread with its own event loop, which behaves like a process.

The node can be stopped cleanly, killed (it sends and writes nothing more), or paused like with SIGSTOP (its
sockets stay open and it does not respond).
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

_CALL_TIMEOUT_S = 30.0


class ClusterNodeFailed(RusloError):
    """A node did not start, or stopped because of an error."""


class ClusterNode:
    def __init__(self, config: BrokerConfig, network: ClusterNetwork) -> None:
        self.node_id = config.node_id
        self._config = config
        self._network = network
        self._loop: NodeLoop | None = None
        self._node: Node | None = None
        self._thread: threading.Thread | None = None
        self._ready: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._wake = threading.Event()
        self._killed = False

    @property
    def running(self) -> bool:
        """True for a paused node as well."""
        return self._thread is not None and self._thread.is_alive() and not self._killed

    @property
    def paused(self) -> bool:
        return self.running and not self._wake.is_set()

    @property
    def is_ready(self) -> bool:
        """True if clients can connect."""
        return self.running and self._ready.done()

    def launch(self) -> None:
        """Start the node without waiting until it is ready."""
        if self.running:
            raise ClusterNodeFailed(f"node {self.node_id} is already running")
        self._ready, self._ended = Future(), Future()
        self._wake.set()
        self._killed = False
        self._loop = NodeLoop(self.node_id, self._network)
        self._node = None
        self._thread = threading.Thread(target=self._run, name=f"ruslo node {self.node_id}", daemon=True)
        self._thread.start()

    def wait_until_ready(self, timeout_s: float) -> None:
        """Wait until clients can connect."""
        try:
            self._ready.result(timeout_s)
        except TimeoutError:
            self.kill()
            raise ClusterNodeFailed(
                f"node {self.node_id} was not ready within {timeout_s:g} s. Start a majority of the nodes"
            ) from None

    def stop(self, timeout_s: float) -> None:
        """Stop the node with a controlled shutdown; raises if it stopped because of an error."""
        self.resume()
        if self.running:
            self._call(lambda node: node.request_stop())
        self._join(timeout_s)

    def kill(self) -> None:
        """Kill the node like kill -9. Its files stay as they are."""
        if not self.running:
            return
        self._killed = True
        if self._wake.is_set():
            self._call(self._die)
        else:
            self._wake.set()
        self._join(_CALL_TIMEOUT_S)

    def pause(self) -> None:
        """Pause the node; returns when it is paused."""
        if not self.running:
            raise ClusterNodeFailed(f"node {self.node_id} is not running")
        if self._wake.is_set():
            self._wake.clear()
            is_paused: Future[None] = Future()
            self._call(lambda node: self._hold(node, is_paused))
            is_paused.result(_CALL_TIMEOUT_S)

    def resume(self) -> None:
        self._wake.set()

    def query(self, read: Callable[[Node], ResultT]) -> ResultT:
        """Call ``read`` in the thread of the node, so that it sees a consistent state."""
        result: Future[ResultT] = Future()

        def run(node: Node) -> None:
            result.set_result(read(node))

        self._call(run)
        return result.result(_CALL_TIMEOUT_S)

    # -- in the node's thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        loop = self._loop
        assert loop is not None
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(self._live())
        except BaseException as error:
            self._ended.set_exception(error)
            if not self._ready.done():
                self._ready.set_exception(error)
        else:
            self._ended.set_result(None)

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
            raise ClusterNodeFailed(f"node {self.node_id} failed: {node.failure}")

    def _die(self, node: Node) -> None:
        assert self._loop is not None
        self._loop.drop_connections()
        node.abandon()

    def _hold(self, node: Node, is_paused: Future[None]) -> None:
        is_paused.set_result(None)
        self._wake.wait()
        if self._killed:
            self._die(node)

    # -- in the caller's thread ------------------------------------------------------------------------------

    def _call(self, action: Callable[[Node], None]) -> None:
        """Schedule ``action`` in the thread of the node."""
        loop, node = self._loop, self._node
        assert loop is not None
        assert node is not None
        loop.call_soon_threadsafe(action, node)

    def _join(self, timeout_s: float) -> None:
        if self._thread is None:
            return
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise ClusterNodeFailed(f"node {self.node_id} did not stop within {timeout_s:g} s")
        self._thread = None
        if not self._killed:
            self._ended.result()
