"""Runs Kafka's command-line classes in one Java process, so many commands cost one start."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import NamedTuple, Self

from tests.support.brokers.kafka import SUPPORT_DIR, compile_java, java_command


class ToolResult(NamedTuple):
    """The exit code and output of a command-line class."""

    code: int
    out: str
    err: str


class JavaTools:
    """Runs commands one after the other; `begin` does not wait for the end."""

    def __init__(self) -> None:
        classes = compile_java([SUPPORT_DIR / "java" / "ToolRunner.java"])
        self._process = subprocess.Popen(
            java_command("ToolRunner", classes=classes),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._thread = ThreadPoolExecutor(1)

    def begin(self, main_class: str, *arguments: str) -> Future[ToolResult]:
        return self._thread.submit(self._run, main_class, arguments)

    def run(self, main_class: str, *arguments: str) -> str:
        """Run a command that must succeed; its standard output."""
        result = self.begin(main_class, *arguments).result(timeout=60)
        assert result.code == 0, f"{main_class} {' '.join(arguments)}: {result.out}\n{result.err}"
        return result.out

    def stop(self) -> None:
        self._process.kill()
        self._thread.shutdown()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, main_class: str, arguments: tuple[str, ...]) -> ToolResult:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"main": main_class, "arguments": arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the Java process ended during {main_class}")
        return ToolResult(**json.loads(line))
