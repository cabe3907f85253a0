"""The broker's handle of a process that compacts logs; its methods block, so a thread calls them.

The process is started for the first log and stopped after an idle time. A broker without compacted topics
therefore has no such process, and the memory for the keys is released.
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
"""Arguments of the interpreter."""


class CleanerDied(Exception):
    """The process has ended: it was killed, or ran out of memory."""


class Cleaner(Protocol):
    """Compacts one log at a time."""

    def send(self, task: CleanTask) -> None:
        """Begin to compact a log; ``receive`` until a report has the result."""
        ...

    def receive(self) -> Report: ...

    def kill(self) -> None:
        """Callable from any thread; ``receive`` then raises CleanerDied."""
        ...

    def raise_priority(self) -> None:
        """The process gets no CPU time: do not run it at idle priority next time."""
        ...

    def stop(self) -> None: ...


class CleanerProcess:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._reports = msgspec.json.Decoder(Report)
        self._idle_priority = True

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
            raise CleanerDied(f"cannot send a task to the cleaner process: {error}") from error

    def receive(self) -> Report:
        process = self._process
        if process is None:
            raise CleanerDied("the cleaner process was stopped")
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.endswith(b"\n"):
            code = process.wait()
            raise CleanerDied(f"the cleaner process exited with code {code}")
        return self._reports.decode(line)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def raise_priority(self) -> None:
        self.stop()
        self._idle_priority = False

    def stop(self) -> None:
        process, self._process = self._process, None
        self._idle_priority = True
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _start(self) -> subprocess.Popen[bytes]:
        idle_priority = self._idle_priority
        self.stop()
        # The process must import the same package as this one.
        home = str(Path(ruslo.__file__).parent.parent)
        paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
        return subprocess.Popen(
            [sys.executable, *COMMAND, str(os.getpid()), "idle" if idle_priority else "low"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
