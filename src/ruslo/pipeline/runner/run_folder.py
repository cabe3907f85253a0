"""Where a pipeline keeps its checkpoint, and the folder through which others meet it while it runs."""

from __future__ import annotations

import re
from pathlib import Path

from ruslo.pipeline.files.model import Pipeline
from ruslo.runs.register import state_folder

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_FOLDER = ".ruslo"


def checkpoint_path(pipeline: Pipeline) -> str:
    """Absolute; an address with a scheme stays what it is."""
    assert pipeline.checkpoint is not None, "lint asks for a checkpoint"
    if _SCHEME.match(pipeline.checkpoint):
        return pipeline.checkpoint
    return str((pipeline.folder / pipeline.checkpoint).resolve())


def local_checkpoint(pipeline: Pipeline) -> Path | None:
    """The checkpoint's folder when it is on this machine."""
    if pipeline.checkpoint is None:
        return None
    path = checkpoint_path(pipeline)
    if path.startswith("file://"):
        return Path(path.removeprefix("file://"))
    return None if _SCHEME.match(path) else Path(path)


def run_folder(pipeline: Pipeline) -> Path:
    """In the checkpoint; for one that is elsewhere (or none) in the user's state folder."""
    local = local_checkpoint(pipeline)
    if local is not None:
        return local / _FOLDER
    return state_folder() / "pipelines" / pipeline.name
