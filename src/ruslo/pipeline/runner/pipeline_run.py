"""A running pipeline: its Spark session, one query per sink, and its run folder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ruslo.model.errors import ConfigError
from ruslo.pipeline.connectors.base import PipelineContext
from ruslo.pipeline.durations import spark_interval
from ruslo.pipeline.files.model import History, OnError, Output, Pipeline
from ruslo.pipeline.registration import is_connect
from ruslo.pipeline.runner.batch_run import BatchRun
from ruslo.pipeline.runner.pipeline_session import close_pipeline_session, new_pipeline_session
from ruslo.pipeline.runner.query_metrics import OUT_METRIC
from ruslo.pipeline.runner.query_run import Phase, QueryRun, QueryState
from ruslo.pipeline.runner.run_folder import checkpoint_path, local_checkpoint, run_folder
from ruslo.pipeline.runner.views import build_views, view_of
from ruslo.pipeline.staging.folder import StagingFolder
from ruslo.runs.folder import RunFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Run: TypeAlias = QueryRun | BatchRun
STAGING = ".staging"
"""The staging folder in the checkpoint, which driver and executors share."""
_ONCE_RESTARTS_MAX = 3
"""The default limit of restarts for runs that end by themselves."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    bootstrap: str
    once: bool = False
    history: bool = False


class PipelineRun:
    def __init__(self, spark: SparkSession, pipeline: Pipeline, options: RunOptions) -> None:
        self.pipeline = pipeline
        self.folder = RunFolder(run_folder(pipeline))
        self.runs: Sequence[Run] = ()
        self.dead_letters: int | None = None
        self.bootstrap = options.bootstrap
        self._spark = spark
        self._session: SparkSession | None = None
        self._options = options
        self._started_at = time.time()

    def prepare(self) -> None:
        """Check for batch logs of an older checkpoint and create the runs. The run folder must be locked."""
        for output in self.pipeline.outputs:
            self._refuse_old_batch_log(output)
            self._refuse_foreach_batch_over_connect(output)
        if not self.pipeline.is_stream:
            self.runs = [BatchRun(output, partial(self._save, output)) for output in self.pipeline.outputs]
            return
        self.runs = [
            QueryRun(output, self._phases(), self._on_error(), partial(self._start, output))
            for output in self.pipeline.outputs
        ]

    def close(self) -> None:
        if self._session is not None:
            close_pipeline_session(self._session)
            self._session = None

    @property
    def is_over(self) -> bool:
        return all(run.state.is_over for run in self.runs)

    @property
    def has_failed(self) -> bool:
        return any(run.state is QueryState.FAILED for run in self.runs)

    def status(self) -> dict[str, Any]:
        """The status that ``ruslo pipeline status`` shows."""
        return {
            "pipeline": self.pipeline.name,
            "file": str(self.pipeline.path),
            "bootstrap": self.bootstrap,
            "group": self.pipeline.group,
            "source_topics": sorted({name for each in self.pipeline.inputs for name in each.source.topics()}),
            "dead_letter_topic": self.pipeline.dead_letters,
            "state": self.state,
            "started_at": self._started_at,
            "updated_at": time.time(),
            "dead_letters": self.dead_letters,
            "queries": [
                {
                    "sink": run.output.name,
                    "topics": list(run.output.sink.topics()),
                    "state": str(run.state),
                    "phase": str(run.phase),
                    "restarts": run.restarts,
                    "error": run.error,
                    **asdict(run.metrics),
                }
                for run in self.runs
            ],
        }

    @property
    def state(self) -> str:
        states = [run.state for run in self.runs]
        for state in (QueryState.FAILED, QueryState.WAITING, QueryState.RUNNING, QueryState.STOPPED):
            if state in states:
                return str(state)
        return str(QueryState.FINISHED)

    def context(self, phase: Phase, output: Output | None = None) -> PipelineContext:
        history = self.pipeline.history if phase is Phase.HISTORY else None
        past = history or History()
        local = local_checkpoint(self.pipeline)
        staging = None if local is None or output is None else str(local / STAGING / output.name)
        transaction_cluster = None
        if staging is not None and output is not None and self.pipeline.is_stream:
            transaction_cluster = output.sink.transaction_cluster(self._options.bootstrap)
            if transaction_cluster is not None:
                # With foreachBatch tasks may stage dead letters before the sink is opened.
                StagingFolder.prepare(staging)
        return PipelineContext(
            pipeline=self.pipeline.name,
            folder=self.pipeline.folder.resolve(),
            bootstrap=self._options.bootstrap,
            group=self.pipeline.group,
            dead_letters=self.pipeline.dead_letters,
            start=self.folder.start(),
            max_records_per_batch=past.max_records_per_batch,
            scan=past.scan,
            staging=staging,
            sink=None if output is None else output.name,
            transaction_cluster=transaction_cluster,
        )

    def _phases(self) -> tuple[Phase, ...]:
        if self._options.once or self.pipeline.trigger_ms is None:
            return (Phase.ONCE,)
        if self._options.history or self.pipeline.history is not None:
            return (Phase.HISTORY, Phase.LIVE)
        return (Phase.LIVE,)

    def _on_error(self) -> OnError:
        on_error = self.pipeline.on_error
        if on_error.restarts is None and self._phases() == (Phase.ONCE,):
            return replace(on_error, restarts=_ONCE_RESTARTS_MAX)
        return on_error

    def _views(self, context: PipelineContext) -> dict[str, DataFrame]:
        session = self._session = self._session or new_pipeline_session(self._spark, self.pipeline)
        return build_views(session, self.pipeline, lambda entry: entry.source.read(session, context))

    def _start(self, output: Output, phase: Phase) -> StreamingQuery:
        from pyspark.sql import functions as F

        context = self.context(phase, output)
        rows = view_of(self._views(context), output.view)
        counted = rows.observe(OUT_METRIC, F.count(F.lit(1)).alias("rows"))
        writer = (
            output.sink.stream(counted, output.mode, context)
            .outputMode(output.mode)
            .queryName(f"{self.pipeline.name}.{output.name}")
            .option("checkpointLocation", f"{checkpoint_path(self.pipeline)}/{output.name}")
        )
        if phase is Phase.LIVE:
            assert self.pipeline.trigger_ms is not None, "a pipeline without a trigger runs once"
            return writer.trigger(processingTime=spark_interval(self.pipeline.trigger_ms)).start()
        return writer.trigger(availableNow=True).start()

    def _save(self, output: Output) -> int:
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        context = self.context(Phase.ONCE, output)
        observation = Observation(OUT_METRIC)
        rows = view_of(self._views(context), output.view)
        output.sink.save(rows.observe(observation, F.count(F.lit(1)).alias("rows")), context)
        return int(observation.get["rows"])

    def _refuse_old_batch_log(self, output: Output) -> None:
        local = local_checkpoint(self.pipeline)
        if local is None or (local / output.name).exists():
            return
        batch_log = output.sink.old_batch_log(self.context(Phase.LIVE))
        if batch_log is not None:
            raise ConfigError(
                f"the checkpoint of {self.pipeline.name} is new, but {batch_log}. "
                f"Run 'ruslo pipeline reset {self.pipeline.path}' with '--outputs delete' to remove what was "
                "written, or with '--outputs keep' to remove only the log"
            )

    def _refuse_foreach_batch_over_connect(self, output: Output) -> None:
        """We assume, unverified, that such writes lack the batch id, so repetitions would go undetected."""
        if (
            self.pipeline.is_stream
            and is_connect(self._spark)
            and output.sink.uses_foreach_batch(output.mode)
        ):
            raise ConfigError(
                f"sink {output.name!r} of {self.pipeline.name} ({output.sink.TYPE}, mode {output.mode}) uses "
                "foreachBatch, which a Spark Connect server runs in another process without delivery "
                "guarantees: give the address of the cluster itself with --master, or write to a topic with "
                "'mode: append'"
            )
