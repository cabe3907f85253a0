"""Where pipelines keep what can be rebuilt: compiled code, and the class archive of Spark's JVM."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_folder(name: str) -> Path:
    """A folder in the user's cache, or a temporary folder per user; it exists."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "ruslo" / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass  # service accounts often have no writable home; the temporary folder works as well
    folder = Path(tempfile.gettempdir()) / f"ruslo-{name}-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder
