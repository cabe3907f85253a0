"""Settings of a session whose executors use a packed environment."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

_NAME = "environment"
PYTHON = f"./{_NAME}/bin/python"


def packed_settings(archive: Path | None, folder: Path) -> dict[str, str]:
    """The Spark settings for an archive. Spark's driver must be started in ``folder``.

    The path of Python is relative, because executors unpack the archive in their working directory. The
    driver uses the same path for its Python workers, so a launcher of our own Python is written there.
    """
    if archive is None:
        return {}
    launcher = folder / PYTHON
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    launcher.chmod(0o755)
    os.environ["PYSPARK_PYTHON"] = PYTHON
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    return {"spark.archives": f"{archive.resolve()}#{_NAME}"}
