"""Which pipelines ran on this machine: pointers to their folders in the user's state folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path


def state_folder() -> Path:
    """The XDG base directory for state, which is kept between runs but is no document of the user's."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "ruslo"


def note_run(folder: Path) -> None:
    """Remember that a pipeline ran there; it runs as well where that cannot be written down."""
    place = str(folder.resolve())
    name = hashlib.sha256(place.encode()).hexdigest()[:16]
    with contextlib.suppress(OSError):
        _pointers().mkdir(parents=True, exist_ok=True)
        (_pointers() / name).write_text(place)


def known_runs() -> list[Path]:
    """The folders of pipelines that ran here and still have theirs; pointers to others are removed."""
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
