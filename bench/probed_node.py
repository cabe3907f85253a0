"""A Ruslo node that watches its own event loop: ``python -m bench.probed_node server.properties FILE``.

Every millisecond it looks how much processor time the loop's thread has used since the last look, which no
single step of the loop can have exceeded. Unlike elapsed time it does not count the moments in which the
system let another process run. Each line of FILE is a time and the longest such stretch around it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import TextIO

from ruslo.broker.node import Node, run
from ruslo.config.broker import BrokerConfig
from ruslo.config.properties import decode_properties, parse_properties
from tests.support.ruslo import RusloNode

LOOK_EVERY_S = 0.001
WRITE_EVERY_S = 0.1


class ProbedNode(RusloNode):
    """A node of Ruslo with the probe in it."""

    @property
    def probe_file(self) -> Path:
        return self.directory / "loop-steps"

    def serve_command(self) -> list[str]:
        return [sys.executable, "-m", "bench.probed_node", str(self.properties_file), str(self.probe_file)]

    def longest_step_ms(self, since_s: float, until_s: float) -> float:
        """Between two moments of ``time.monotonic``, which all processes of a machine share."""
        steps = [line.split() for line in self.probe_file.read_text().splitlines()]
        return max((float(ms) for at_s, ms in steps if since_s <= float(at_s) <= until_s), default=0.0)


class LoopProbe:
    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._loop = asyncio.get_running_loop()
        self._used_s = time.thread_time()
        self._longest_s = 0.0
        self._written_s = 0.0
        self._look()

    def _look(self) -> None:
        used_s = time.thread_time()
        self._longest_s = max(self._longest_s, used_s - self._used_s)
        now_s = time.monotonic()
        if now_s - self._written_s > WRITE_EVERY_S:
            self._out.write(f"{now_s:.6f} {self._longest_s * 1000:.3f}\n")
            self._out.flush()
            self._longest_s, self._written_s = 0.0, now_s
        self._used_s = time.thread_time()
        self._loop.call_later(LOOK_EVERY_S, self._look)


def main(properties: str, probe_file: str) -> int:
    config = BrokerConfig.from_properties(parse_properties(decode_properties(Path(properties).read_bytes())))
    with Path(probe_file).open("w") as out:
        probes: list[LoopProbe] = []

        def on_ready(node: Node) -> None:
            probes.append(LoopProbe(out))

        return run(config, on_ready)


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
