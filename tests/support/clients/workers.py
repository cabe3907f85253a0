"""Worker processes in numbered slots, which tests kill and restart."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Workers:
    def __init__(self, slots: int, start: Callable[[int], subprocess.Popen[bytes]]) -> None:
        """``start`` gets the slot; the next worker in a slot continues under the same name."""
        self._start = start
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self.slots = range(slots)
        self.kills = 0

    def start(self, slot: int) -> None:
        assert slot not in self._running
        self._running[slot] = self._start(slot)

    def kill(self, slot: int) -> None:
        """kill -9: its peers detect it by a timeout or from the next worker in the slot."""
        process = self._running.pop(slot)
        assert process.poll() is None, f"worker {slot} ended by itself with {process.returncode}"
        process.kill()
        process.wait(90)
        self.kills += 1

    def leave(self, slot: int) -> None:
        process = self._running.pop(slot)
        process.send_signal(signal.SIGTERM)
        code = process.wait(90)
        assert code in (0, 128 + signal.SIGTERM), f"worker {slot} left with {code}"

    def is_running(self, slot: int) -> bool:
        return slot in self._running

    def fill_up(self) -> None:
        """Start a worker in every empty slot."""
        for slot in self.slots:
            if not self.is_running(slot):
                self.start(slot)

    def check_alive(self) -> None:
        for slot, process in self._running.items():
            assert process.poll() is None, f"worker {slot} ended by itself with {process.returncode}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running.values():
            process.kill()
            process.wait(90)
