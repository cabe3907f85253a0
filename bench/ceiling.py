"""A broker that stores nothing (`ceiling.c`), as a contender: the limit that the client sets."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.brokers.ruslo import RusloNode
from tests.support.network.ports import free_port, wait_for_metadata

SOURCE = Path(__file__).with_suffix(".c")


class Ceiling(RusloNode):
    """A proxy of a Ruslo node, which handles all requests except Produce and those of transactions."""

    name = "nothing stored"

    def __init__(self, directory: Path, *, program: Path, properties: Mapping[str, str]) -> None:
        self._program = program
        self._upstream_port = free_port()
        super().__init__(directory, properties=properties)
        self._upstream: subprocess.Popen[bytes] | None = None

    def server_properties(self) -> dict[str, str]:
        listeners = (
            f"PLAINTEXT://127.0.0.1:{self._upstream_port},CONTROLLER://127.0.0.1:{self.controller_port}"
        )
        return super().server_properties() | {"listeners": listeners}

    def launch(self) -> None:
        super().launch()
        wait_for_metadata("127.0.0.1", self._upstream_port, self.process, timeout_s=60)
        self._upstream = self.process
        self.process = subprocess.Popen([str(self._program), str(self.port), str(self._upstream_port)])

    def kill(self) -> None:
        super().kill()
        if self._upstream is not None:
            self._upstream.send_signal(signal.SIGKILL)
            self._upstream.wait()
            self._upstream = None
