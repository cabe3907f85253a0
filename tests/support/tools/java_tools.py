"""Runs Kafka's command-line classes in one Java process, so many commands cost one start."""

from __future__ import annotations

import atexit
import json
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import NamedTuple, Self

from tests.support.tools.kafka_jars import support_java_command

_shared: JavaTools | None = None


def run_tool(main_class: str, *arguments: str, timeout: float = 60, stdin: str = "") -> ToolResult:
    """Run a command-line class to its end in the Java process that all tests of this process share.

    A class that does not end in time takes that Java process with it; the next call starts another.
    """
    global _shared
    if _shared is None:
        _shared = JavaTools()
        atexit.register(_shared.stop)
    try:
        return _shared.begin(main_class, *arguments, stdin=stdin).result(timeout)
    except BaseException:
        atexit.unregister(_shared.stop)
        _shared.stop()
        _shared = None
        raise


def tool_output(main_class: str, *arguments: str, timeout: float = 60, stdin: str = "") -> str:
    """Run a command-line class that must succeed; its standard output."""
    return run_tool(main_class, *arguments, timeout=timeout, stdin=stdin).output


class ToolResult(NamedTuple):
    """The exit code and output of a command-line class."""

    command: str
    returncode: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        """The standard output of a command that must succeed."""
        assert self.returncode == 0, f"{self.command}: {self.stdout}\n{self.stderr}"
        return self.stdout


class JavaTools:
    """A Java process of its own, for commands that run beside a test; they run one after the other."""

    def __init__(self) -> None:
        # The first call on a machine downloads Kafka: that must not count as time of a command.
        self._command = support_java_command("ToolRunner")
        self._process: subprocess.Popen[str] | None = None
        self._thread = ThreadPoolExecutor(1)

    def begin(self, main_class: str, *arguments: str, stdin: str = "") -> Future[ToolResult]:
        """Run a command without waiting for its end."""
        return self._thread.submit(self._run, main_class, arguments, stdin)

    def stop(self) -> None:
        self._kill()
        self._thread.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, main_class: str, arguments: tuple[str, ...], stdin: str) -> ToolResult:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        request = {"main": main_class, "arguments": arguments, "stdin": stdin}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the Java process ended during {main_class}")
        response = json.loads(line)
        if response.pop("left_open"):
            self._kill()
        return ToolResult(" ".join((main_class, *arguments)), **response)

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()
