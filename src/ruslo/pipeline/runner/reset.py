"""Resets a pipeline: removes its checkpoint and, if required, its sinks' batch logs."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from ruslo.model.errors import ConfigError
from ruslo.pipeline.connectors.base import PipelineContext
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
    """The outputs whose batch logs must be removed too."""
    delete_outputs: bool

    def describe(self) -> list[str]:
        words = "all files" if self.delete_outputs else "the batch log"
        return [
            f"the checkpoint {checkpoint_path(self.pipeline)}",
            *(f"{words} of sink {output.name}" for output in self.outputs),
        ]

    def execute(self) -> None:
        """Holds the pipeline's lock, so it cannot start meanwhile."""
        folder = RunFolder(run_folder(self.pipeline))
        with folder:
            root = local_checkpoint(self.pipeline)
            assert root is not None, "plan_reset rejects remote checkpoints"
            for part in (*(output.name for output in self.pipeline.outputs), STAGING):
                _remove(root / part)
            for output in self.outputs:
                output.sink.remove_batch_log(_context(self.pipeline), delete=self.delete_outputs)
            folder.set_start(self.start)


def plan_reset(pipeline: Pipeline, start: str | None, outputs: str | None) -> Reset:
    """Raises ConfigError if the user has to decide or do something first."""
    if pipeline.checkpoint is None:
        raise ConfigError(f"{pipeline.name} has no checkpoint: every run starts from the beginning")
    if local_checkpoint(pipeline) is None:
        raise ConfigError(
            f"{pipeline.checkpoint} is not on this machine: delete it with the tools of its storage, "
            "or set another checkpoint in the file"
        )
    if RunFolder(run_folder(pipeline)).is_held():
        raise ConfigError(
            f"{pipeline.name} is running: stop it first, with 'ruslo pipeline stop {pipeline.path}'"
        )
    shared = next((each.source.share_group for each in pipeline.inputs if each.source.share_group), None)
    if start is not None and shared is not None:
        raise ConfigError(
            f"{pipeline.name} reads as a member of share group {shared}, which decides where to start: use "
            f"'ruslo share reset-offsets {shared}' instead of --start"
        )
    if start is not None:
        try:
            start_options(start)
        except ValueError:
            raise ConfigError(
                f"invalid start {start!r}: give earliest, latest, a time such as 2026-03-01T10:00, or JSON"
            ) from None
    context = _context(pipeline)
    logged = tuple(output for output in pipeline.outputs if output.sink.old_batch_log(context) is not None)
    if logged and outputs is None:
        raise ConfigError(
            f"{logged[0].sink.old_batch_log(context)}: add --outputs delete to remove what was written, or "
            "--outputs keep to keep it and write everything again"
        )
    return Reset(pipeline, start, logged, outputs == "delete")


def _remove(folder: Path) -> None:
    """Remove a folder atomically, by a rename.

    Half of a checkpoint could have the query's id without its batches: sinks would then skip batches of the
    next run as already written.
    """
    renamed = folder.with_name(f".deleted-{folder.name}")
    if renamed.exists():
        shutil.rmtree(renamed)
    if folder.exists():
        folder.rename(renamed)
        shutil.rmtree(renamed)


def _context(pipeline: Pipeline) -> PipelineContext:
    return PipelineContext(pipeline=pipeline.name, folder=pipeline.folder.resolve(), bootstrap="")
