"""A Ruslo node that watches its own event loop: ``python -m bench.probed_node server.properties FILE``.

It takes the processor time of every step of the loop: of each callback, each stretch of a task between two
awaits, and each time a connection hands over what it has read. Unlike elapsed time it does not count the
moments in which the system let another process run. Each line of FILE is a time, the longest step around it,
and what that was.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TextIO, TypeVarTuple, Unpack

import uvloop

from ruslo.broker.node.node import run
from ruslo.config.broker import BrokerConfig
from ruslo.config.properties import decode_properties, parse_properties
from ruslo.net.connection import Connection
from tests.support.brokers.ruslo import RusloNode

WRITE_EVERY_S = 0.1
ArgumentsT = TypeVarTuple("ArgumentsT")


class LongestStep(NamedTuple):
    ms: float
    name: str


class Probed(RusloNode):
    """A Ruslo node with the probe."""

    @property
    def probe_file(self) -> Path:
        return self.directory / "loop-steps"

    def serve_command(self) -> list[str]:
        return [sys.executable, "-m", "bench.probed_node", str(self.properties_file), str(self.probe_file)]

    def longest_step(self, since_s: float, until_s: float) -> LongestStep:
        """Return the longest step between two times of ``time.monotonic``, which all processes share."""
        lines = [line.split(maxsplit=2) for line in self.probe_file.read_text().splitlines()]
        steps = [
            LongestStep(float(ms), name) for at_s, ms, name in lines if since_s <= float(at_s) <= until_s
        ]
        return max(steps, default=LongestStep(0.0, "none"))

    def longest_step_ms(self, since_s: float, until_s: float) -> float:
        return self.longest_step(since_s, until_s).ms


class ProbedNode(Probed):
    """A single node with the probe."""


class StepTimer:
    """Records the longest step since its last line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._longest_s = 0.0
        self._longest: object = None
        self._written_s = 0.0

    def run(self, step: Callable[[Unpack[ArgumentsT]], object], *arguments: *ArgumentsT) -> None:
        begin_s = time.thread_time()
        try:
            step(*arguments)
        finally:
            took_s = time.thread_time() - begin_s
            if took_s > self._longest_s:
                self._longest_s, self._longest = took_s, step
            now_s = time.monotonic()
            if now_s - self._written_s > WRITE_EVERY_S:
                self._out.write(f"{now_s:.6f} {self._longest_s * 1000:.3f} {_name(self._longest)}\n")
                self._out.flush()
                self._longest_s, self._longest, self._written_s = 0.0, None, now_s


def _name(step: object) -> str:
    owner = getattr(step, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return getattr(owner.get_coro(), "__qualname__", None) or owner.get_name()
    return getattr(step, "__qualname__", None) or repr(step).replace("\n", " ")


class ProbedLoop(uvloop.Loop):
    """Time every callback: tasks and futures run their steps through these three methods too."""

    def __init__(self, timer: StepTimer) -> None:
        super().__init__()
        self._timer = timer

    def call_soon(
        self,
        callback: Callable[[Unpack[ArgumentsT]], object],
        *arguments: *ArgumentsT,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        return super().call_soon(self._timer.run, callback, *arguments, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[ArgumentsT]], object],
        *arguments: *ArgumentsT,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return super().call_later(delay, self._timer.run, callback, *arguments, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[ArgumentsT]], object],
        *arguments: *ArgumentsT,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return super().call_at(when, self._timer.run, callback, *arguments, context=context)


def probe_reading(timer: StepTimer) -> None:
    """Time the connection: the event loop passes received bytes to it without a callback."""
    buffer_updated = Connection.buffer_updated

    def timed(connection: Connection, nbytes: int) -> None:
        timer.run(buffer_updated, connection, nbytes)

    Connection.buffer_updated = timed  # type: ignore[assignment, method-assign]


def main(properties: str, probe_file: str) -> int:
    config = BrokerConfig.from_properties(parse_properties(decode_properties(Path(properties).read_bytes())))
    with Path(probe_file).open("a") as out:
        timer = StepTimer(out)
        probe_reading(timer)
        return run(config, lambda node: None, functools.partial(ProbedLoop, timer))


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
