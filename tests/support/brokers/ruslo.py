"""Ruslo as its users run it: the installed `ruslo` command in its own process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.brokers.node import Node

RUSLO = Path(sys.executable).parent / "ruslo"


class RusloNode(Node):
    """A node of Ruslo; see Node for its files."""

    name = "Ruslo"

    def server_properties(self) -> dict[str, str]:
        return {"ruslo.metrics.listener": "127.0.0.1:0", **super().server_properties()}

    def format(self) -> None:
        self.format_with(["--standalone"] if self.quorum == "standalone" else [])

    def format_with(self, options: Sequence[str]) -> None:
        arguments = ["storage", "format", "--cluster-id", self.cluster_id, "-c", str(self.properties_file)]
        command = [*self.host.prefix, str(RUSLO), *arguments, *options, *self.format_options]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if result.returncode != 0:
            raise RuntimeError(f"ruslo storage format failed:\n{result.stdout}{result.stderr}")

    def serve_command(self) -> list[str]:
        return [str(RUSLO), "serve", "-c", str(self.properties_file)]
