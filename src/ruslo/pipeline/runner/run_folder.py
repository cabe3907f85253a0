"""The paths of a pipeline's checkpoint and run folder."""

from __future__ import annotations

import re
from pathlib import Path

from ruslo.pipeline.files.model import Pipeline
from ruslo.runs.register import state_folder

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_FOLDER = ".ruslo"


def checkpoint_path(pipeline: Pipeline) -> str:
    """An absolute path, or the checkpoint's URL."""
    assert pipeline.checkpoint is not None, "lint requires a checkpoint"
    if _SCHEME.match(pipeline.checkpoint):
        return pipeline.checkpoint
    return str((pipeline.folder / pipeline.checkpoint).resolve())


def local_checkpoint(pipeline: Pipeline) -> Path | None:
    """The checkpoint's folder if it is on this machine."""
    if pipeline.checkpoint is None:
        return None
    path = checkpoint_path(pipeline)
    if path.startswith("file://"):
        return Path(path.removeprefix("file://"))
    return None if _SCHEME.match(path) else Path(path)


def run_folder(pipeline: Pipeline) -> Path:
    """In the checkpoint; for a remote checkpoint or none, in the user's state folder."""
    local = local_checkpoint(pipeline)
    if local is not None:
        return local / _FOLDER
    return state_folder() / "pipelines" / pipeline.name
