"""The process in which compaction runs, seen from the broker; its methods block, so a thread calls them.

It is started when there is something to compact and ended when there has been nothing for a while, so that a
broker without compacted topics has one process and gives the memory of the keys back.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Protocol

import msgspec

import ruslo
from ruslo.storage.cleaner.task import CleanTask, Report

COMMAND: tuple[str, ...] = ("-m", "ruslo.storage.cleaner")
"""What the interpreter is told to run."""


class CleanerDied(Exception):
    """The process is gone: killed, or out of memory."""


class Cleaner(Protocol):
    """Who does the rounds of compaction, one at a time."""

    def send(self, task: CleanTask) -> None:
        """Begin a round; ``receive`` until a report says how it ended."""
        ...

    def receive(self) -> Report: ...

    def kill(self) -> None:
        """From any thread; whoever waits in ``receive`` hears of it."""
        ...

    def insist(self) -> None:
        """Others leave it no time to run: the next round is not to step back for them."""
        ...

    def stop(self) -> None: ...


class CleanerProcess:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._reports = msgspec.json.Decoder(Report)
        self._may_idle = True

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def send(self, task: CleanTask) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            process = self._process = self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(msgspec.json.encode(task) + b"\n")
            process.stdin.flush()
        except OSError as error:
            raise CleanerDied(f"the cleaner does not take a task: {error}") from error

    def receive(self) -> Report:
        process = self._process
        if process is None:
            raise CleanerDied("the cleaner was stopped")
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.endswith(b"\n"):
            code = process.wait()
            raise CleanerDied(f"the cleaner ended with {code}")
        return self._reports.decode(line)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def insist(self) -> None:
        self.stop()
        self._may_idle = False

    def stop(self) -> None:
        process, self._process = self._process, None
        self._may_idle = True
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _start(self) -> subprocess.Popen[bytes]:
        may_idle = self._may_idle
        self.stop()
        # The same package as this process, wherever it was imported from.
        home = str(Path(ruslo.__file__).parent.parent)
        paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
        return subprocess.Popen(
            [sys.executable, *COMMAND, str(os.getpid()), "idle" if may_idle else "low"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
