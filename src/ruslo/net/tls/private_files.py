"""Writes files that only their owner may read: private keys and passwords."""

from __future__ import annotations

import os
from pathlib import Path


def write_private_file(path: Path, content: str | bytes) -> None:
    """Write the file with mode 0600, whatever the mode of an older file was.

    An interrupted write leaves the older file, or none.
    """
    data = content.encode() if isinstance(content, str) else content
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
