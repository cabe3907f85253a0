"""The folder of a pipeline's run: a lock, the status, and a stop request."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from pathlib import Path
from typing import IO, Any, Self

from ruslo.model.errors import ConfigError
from ruslo.runs.register import record_run

_LOCK_TIMEOUT_S = 0.5
"""Longer than a reader holds the lock to check whether the pipeline runs."""


class AlreadyRunning(ConfigError):
    """Another process runs the pipeline."""


def _acquire(lock: IO[str]) -> bool:
    deadline_s = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            if time.monotonic() >= deadline_s:
                return False
        time.sleep(0.01)


class RunFolder:
    """Locked while a pipeline runs. The lock ends with the process, so it shows that the process is alive."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = (self.folder / "lock").open("a+")
        if not _acquire(lock):
            lock.close()
            status = self.status() or {}
            raise AlreadyRunning(
                f"the pipeline is already running (process {status.get('pid')} on {status.get('host')}): "
                "stop it with 'ruslo pipeline stop', or use another checkpoint"
            ) from None
        self._lock = lock
        with contextlib.suppress(FileNotFoundError):
            self._stop_file.unlink()
        record_run(self.folder)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def _stop_file(self) -> Path:
        return self.folder / "stop"

    @property
    def stop_requested(self) -> bool:
        return self._stop_file.exists()

    def request_stop(self) -> None:
        self._stop_file.touch()

    def is_held(self) -> bool:
        """Whether a process runs the pipeline now."""
        try:
            with (self.folder / "lock").open("r+") as lock:
                # A shared lock: concurrent readers must not take each other for a run.
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def write_status(self, status: dict[str, Any]) -> None:
        """Replace the status atomically."""
        self._replace("status.json", status | {"pid": os.getpid(), "host": socket.gethostname()})

    def status(self) -> dict[str, Any] | None:
        """The last status; None before the first run."""
        return self._read("status.json")

    def report(self) -> dict[str, Any] | None:
        """The last status with ``running``; its state is ``died`` if the process ended without a status."""
        last = self.status()
        if last is None:
            return None
        held, active = self.is_held(), last["state"] in ("running", "waiting")
        if active and not held:
            last["state"] = "died"
        return last | {"running": held and active}

    def set_start(self, start: str | None) -> None:
        """Set where sources start with a new checkpoint; overrides the pipeline file."""
        if start is None:
            with contextlib.suppress(FileNotFoundError):
                (self.folder / "start.json").unlink()
        else:
            self._replace("start.json", {"start": start})

    def start(self) -> str | None:
        value = self._read("start.json")
        return None if value is None else str(value["start"])

    def _replace(self, name: str, value: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self.folder / f"{name}.partial"
        partial.write_text(json.dumps(value))
        partial.replace(self.folder / name)

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            value = json.loads((self.folder / name).read_text())
        except FileNotFoundError:
            return None
        assert isinstance(value, dict), "only this class writes the files"
        return value
