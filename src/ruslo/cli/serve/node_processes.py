"""Several nodes as processes of one command: started together, stopped together, started again when they die.

Each child writes its bootstrap address to a pipe when clients may connect, and ends when its parent does.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType

from ruslo.cli.terminal.output import hint
from ruslo.config.properties import format_properties
from ruslo.model.errors import RusloError

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 60.0
_LOOK_EVERY_S = 0.2
_RESTART_PAUSES_S = (0.5, 2.0, 10.0)
_LIVED_LONG_S = 60.0
"""Whoever ran for so long may be started again at once."""
_CLEAN_ENDS = (0, -signal.SIGTERM)
"""The signal itself ends a node that has begun nothing yet, not even to listen to signals."""


class NodesFailed(RusloError):
    """A node ended before clients could connect."""


class _NodeProcess:
    def __init__(self, node_id: str, command: Sequence[str]) -> None:
        self.node_id = node_id
        self._command = command
        self.failures = 0
        self.started_s = 0.0
        self.start_again_s: float | None = None
        self.ready_fd = -1
        """Open as long as the child may write to it."""
        self.start()

    def start(self) -> None:
        if self.ready_fd >= 0:
            os.close(self.ready_fd)
        ready_read, ready_write = os.pipe()
        self.process = subprocess.Popen(
            [*self._command, str(ready_write)],
            stdin=subprocess.PIPE,
            pass_fds=(ready_write,),
            # Ctrl-C is for the parent, which stops its children in order.
            start_new_session=True,
        )
        os.close(ready_write)
        self.ready_fd = ready_read
        self.started_s = time.monotonic()
        self.start_again_s = None

    def pause_s(self) -> float:
        """Until it is started again, having died."""
        if time.monotonic() - self.started_s > _LIVED_LONG_S:
            self.failures = 0
        pause_s = _RESTART_PAUSES_S[min(self.failures, len(_RESTART_PAUSES_S) - 1)]
        self.failures += 1
        return pause_s


class NodeProcesses:
    def __init__(self, nodes: Sequence[Mapping[str, str]], log_level: str) -> None:
        """``nodes``: the properties of each, whose directories are formatted."""
        self._folder = tempfile.TemporaryDirectory(prefix="ruslo-nodes-", ignore_cleanup_errors=True)
        self._stopping = False
        self._nodes: list[_NodeProcess] = []
        try:
            for properties in nodes:
                file = Path(self._folder.name) / f"node-{properties['node.id']}.properties"
                file.write_text(format_properties(properties))
                command = [sys.executable, "-m", "ruslo.broker.node.process", str(file), log_level]
                self._nodes.append(_NodeProcess(properties["node.id"], command))
        except BaseException:
            self._stop_all()
            raise

    def run(self, on_ready: Callable[[list[str]], None]) -> int:
        """Until SIGTERM or SIGINT; returns the exit code. Told of the addresses once all nodes are ready."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._request_stop)
        try:
            addresses = self._wait_until_ready()
            if not self._stopping:
                on_ready(addresses)
            while not self._stopping:
                self._look_after()
                time.sleep(_LOOK_EVERY_S)
        finally:
            clean = self._stop_all()
            self._folder.cleanup()
        return 0 if clean else 1

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True

    def _wait_until_ready(self) -> list[str]:
        deadline = time.monotonic() + _START_TIMEOUT_S
        addresses: dict[str, str] = {}
        with selectors.DefaultSelector() as selector:
            for node in self._nodes:
                selector.register(node.ready_fd, selectors.EVENT_READ, node)
            while len(addresses) < len(self._nodes) and not self._stopping:
                if time.monotonic() > deadline:
                    waiting = [node.node_id for node in self._nodes if node.node_id not in addresses]
                    raise NodesFailed(
                        f"node {', '.join(waiting)} was not ready within {_START_TIMEOUT_S:g} s; "
                        "what it logged above says why"
                    )
                for key, _ in selector.select(_LOOK_EVERY_S):
                    heard: _NodeProcess = key.data
                    line = os.read(heard.ready_fd, 4096).decode()
                    selector.unregister(heard.ready_fd)
                    if not line:
                        raise NodesFailed(
                            f"node {heard.node_id} could not start; what it logged above says why"
                        )
                    addresses[heard.node_id] = line
        return [addresses[node.node_id] for node in self._nodes if node.node_id in addresses]

    def _look_after(self) -> None:
        for node in self._nodes:
            if node.start_again_s is not None:
                if time.monotonic() >= node.start_again_s:
                    node.start()
            elif (code := node.process.poll()) is not None:
                pause_s = node.pause_s()
                node.start_again_s = time.monotonic() + pause_s
                hint(f"node {node.node_id} ended with exit code {code}; it is started again in {pause_s:g} s")

    def _stop_all(self) -> bool:
        """Whether every node stopped cleanly."""
        clean = True
        running = [node for node in self._nodes if node.process.poll() is None]
        for node in running:
            node.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        for node in running:
            try:
                clean = node.process.wait(max(0.0, deadline - time.monotonic())) in _CLEAN_ENDS and clean
            except subprocess.TimeoutExpired:
                node.process.kill()
                node.process.wait()
                clean = False
        for node in self._nodes:
            if node.process.stdin is not None:
                node.process.stdin.close()
            os.close(node.ready_fd)
        return clean
