"""A JVM that evaluates requests with Kafka's own classes: one line in, one line out."""

from __future__ import annotations

import subprocess
from typing import Self

from tests.support.tools.kafka_jars import support_java_command
from tests.support.tools.programs import require_tool


class JavaOracle:
    def __init__(self, main_class: str) -> None:
        require_tool("javac")
        command = support_java_command(main_class, log_level="ERROR")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def exchange(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().rstrip("\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=30)
