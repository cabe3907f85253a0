"""Worker processes in numbered slots, which tests kill and restart."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Workers:
    def __init__(self, places: int, start: Callable[[int], subprocess.Popen[bytes]]) -> None:
        """``start`` gets the slot; the next worker in a slot continues under the same name."""
        self._start = start
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self.places = range(places)
        self.kills = 0

    def start(self, place: int) -> None:
        assert place not in self._running
        self._running[place] = self._start(place)

    def kill(self, place: int) -> None:
        """kill -9: others learn of it by a timeout or from the next worker in the slot."""
        process = self._running.pop(place)
        assert process.poll() is None, f"worker {place} ended by itself with {process.returncode}"
        process.kill()
        process.wait(90)
        self.kills += 1

    def leave(self, place: int) -> None:
        process = self._running.pop(place)
        process.send_signal(signal.SIGTERM)
        code = process.wait(90)
        assert code in (0, 128 + signal.SIGTERM), f"worker {place} left with {code}"

    def is_running(self, place: int) -> bool:
        return place in self._running

    def fill_up(self) -> None:
        """Start a worker in every empty slot."""
        for place in self.places:
            if not self.is_running(place):
                self.start(place)

    def check_alive(self) -> None:
        for place, process in self._running.items():
            assert process.poll() is None, f"worker {place} ended by itself with {process.returncode}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running.values():
            process.kill()
            process.wait(90)
