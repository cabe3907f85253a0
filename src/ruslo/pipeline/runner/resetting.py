"""Forgetting how far a pipeline is."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from ruslo.model.errors import ConfigError
from ruslo.pipeline.connectors.base import Surroundings
from ruslo.pipeline.connectors.topic_source import start_options
from ruslo.pipeline.files.model import Output, Pipeline
from ruslo.pipeline.runner.pipeline_run import STAGING
from ruslo.pipeline.runner.run_folder import checkpoint_path, local_checkpoint, run_folder
from ruslo.runs.folder import RunFolder


@dataclass(frozen=True, slots=True)
class Reset:
    pipeline: Pipeline
    start: str | None
    outputs: tuple[Output, ...]
    """Those whose own notes of batches must go too."""
    delete_outputs: bool

    def describe(self) -> list[str]:
        words = "all files" if self.delete_outputs else "the log of batches"
        return [
            f"the checkpoint {checkpoint_path(self.pipeline)}",
            *(f"{words} of sink {output.name}" for output in self.outputs),
        ]

    def execute(self) -> None:
        """With the pipeline's lock held, so that it cannot start meanwhile."""
        folder = RunFolder(run_folder(self.pipeline))
        with folder:
            root = local_checkpoint(self.pipeline)
            assert root is not None, "the plan refuses others"
            for part in (*(output.name for output in self.pipeline.outputs), STAGING):
                _remove(root / part)
            for output in self.outputs:
                output.sink.forget(_around(self.pipeline), delete=self.delete_outputs)
            folder.set_start(self.start)


def plan_reset(pipeline: Pipeline, start: str | None, outputs: str | None) -> Reset:
    """Raises ConfigError where something must be decided, or done, by somebody first."""
    if pipeline.checkpoint is None:
        raise ConfigError(f"{pipeline.name} has no checkpoint: it begins anew with every run")
    if local_checkpoint(pipeline) is None:
        raise ConfigError(
            f"{pipeline.checkpoint} is not on this machine: delete it with the tools of its storage, "
            "or name another checkpoint in the file"
        )
    if RunFolder(run_folder(pipeline)).is_held():
        raise ConfigError(
            f"{pipeline.name} is running: stop it first, with 'ruslo pipeline stop {pipeline.path}'"
        )
    if start is not None:
        try:
            start_options(start)
        except ValueError:
            raise ConfigError(
                f"{start!r} is no place to start: give earliest, latest, a time as 2026-03-01T10:00, or JSON"
            ) from None
    around = _around(pipeline)
    marked = tuple(output for output in pipeline.outputs if output.sink.left_from_before(around) is not None)
    if marked and outputs is None:
        raise ConfigError(
            f"{marked[0].sink.left_from_before(around)}: say --outputs delete to remove what was written, or "
            "--outputs keep to leave it and have everything written again"
        )
    return Reset(pipeline, start, marked, outputs == "delete")


def _remove(folder: Path) -> None:
    """All of it or nothing, if it is interrupted: what is left of a checkpoint may have the query's id and
    not its batches, and sinks would take the batches of the next run for those that they have written."""
    doomed = folder.with_name(f".deleted-{folder.name}")
    if doomed.exists():
        shutil.rmtree(doomed)
    if folder.exists():
        folder.rename(doomed)
        shutil.rmtree(doomed)


def _around(pipeline: Pipeline) -> Surroundings:
    return Surroundings(pipeline=pipeline.name, folder=pipeline.folder.resolve(), bootstrap="")
