"""The pipelines that ran on this machine: pointers to their run folders, in the user's state folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path


def state_folder() -> Path:
    """Ruslo's folder in the XDG state directory."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "ruslo"


def record_run(folder: Path) -> None:
    """Write a pointer to a run folder. A state folder that cannot be written does not stop the pipeline."""
    path = str(folder.resolve())
    name = hashlib.sha256(path.encode()).hexdigest()[:16]
    with contextlib.suppress(OSError):
        _pointers().mkdir(parents=True, exist_ok=True)
        (_pointers() / name).write_text(path)


def known_runs() -> list[Path]:
    """The run folders that still exist; other pointers are removed."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for pointer in sorted(_pointers().iterdir()):
            folder = Path(pointer.read_text())
            if folder.is_dir():
                found.append(folder)
            else:
                pointer.unlink(missing_ok=True)
    return found


def _pointers() -> Path:
    return state_folder() / "runs"
