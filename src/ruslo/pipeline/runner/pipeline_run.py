"""A pipeline at work: its own Spark session, a query for each sink, the folder that tells others of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ruslo.model.errors import ConfigError
from ruslo.pipeline.connectors.base import Surroundings
from ruslo.pipeline.files.durations import spark_interval
from ruslo.pipeline.files.model import History, OnError, Output, Pipeline
from ruslo.pipeline.registration import is_connect
from ruslo.pipeline.runner.batch_run import BatchRun
from ruslo.pipeline.runner.figures import OUT_METRIC
from ruslo.pipeline.runner.own_session import own_session, release
from ruslo.pipeline.runner.query_run import Phase, QueryRun, QueryState
from ruslo.pipeline.runner.run_folder import checkpoint_path, local_checkpoint, run_folder
from ruslo.pipeline.runner.views import build_views, view_of
from ruslo.pipeline.sink.staging import StagingPlace
from ruslo.runs.folder import RunFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Run: TypeAlias = QueryRun | BatchRun
STAGING = ".staging"
"""The folder in the checkpoint for what sinks stage; executors reach it as they reach the checkpoint."""
_RESTARTS_ONCE = 3
"""Who waits for a run to end must not wait forever, unless the file says so."""


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
        """With the folder held: see that nothing of an older checkpoint is in the way; plan the queries."""
        for output in self.pipeline.outputs:
            self._refuse_leftovers(output)
            self._refuse_functions_over_connect(output)
        if not self.pipeline.is_stream:
            self.runs = [BatchRun(output, partial(self._save, output)) for output in self.pipeline.outputs]
            return
        self.runs = [
            QueryRun(
                output,
                self._phases(),
                self._on_error(),
                partial(self._start, output),
            )
            for output in self.pipeline.outputs
        ]

    def close(self) -> None:
        if self._session is not None:
            release(self._session)
            self._session = None

    @property
    def is_over(self) -> bool:
        return all(run.state.is_over for run in self.runs)

    @property
    def has_failed(self) -> bool:
        return any(run.state is QueryState.FAILED for run in self.runs)

    def status(self) -> dict[str, Any]:
        """What ``ruslo pipeline status`` shows."""
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
                    **asdict(run.figures),
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

    def surroundings(self, phase: Phase, output: Output | None = None) -> Surroundings:
        history = self.pipeline.history if phase is Phase.HISTORY else None
        past = history or History()
        local = local_checkpoint(self.pipeline)
        staging = None if local is None or output is None else str(local / STAGING / output.name)
        transactions_at = None
        if staging is not None and output is not None and self.pipeline.is_stream:
            transactions_at = output.sink.transactions_at(self._options.bootstrap)
            if transactions_at is not None:
                # Tasks may stage letters before the sink is opened: where each batch is given to a function.
                StagingPlace.prepare(staging)
        return Surroundings(
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
            transactions_at=transactions_at,
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
            return replace(on_error, restarts=_RESTARTS_ONCE)
        return on_error

    def _views(self, around: Surroundings) -> dict[str, DataFrame]:
        session = self._session = self._session or own_session(self._spark, self.pipeline)
        return build_views(session, self.pipeline, lambda entry: entry.source.read(session, around))

    def _start(self, output: Output, phase: Phase) -> StreamingQuery:
        from pyspark.sql import functions as F

        around = self.surroundings(phase, output)
        rows = view_of(self._views(around), output.view)
        counted = rows.observe(OUT_METRIC, F.count(F.lit(1)).alias("rows"))
        writer = (
            output.sink.stream(counted, output.mode, around)
            .outputMode(output.mode)
            .queryName(f"{self.pipeline.name}.{output.name}")
            .option("checkpointLocation", f"{checkpoint_path(self.pipeline)}/{output.name}")
        )
        if phase is Phase.LIVE:
            assert self.pipeline.trigger_ms is not None, "a pipeline without one runs once"
            return writer.trigger(processingTime=spark_interval(self.pipeline.trigger_ms)).start()
        return writer.trigger(availableNow=True).start()

    def _save(self, output: Output) -> int:
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        around = self.surroundings(Phase.ONCE, output)
        observation = Observation(OUT_METRIC)
        rows = view_of(self._views(around), output.view)
        output.sink.save(rows.observe(observation, F.count(F.lit(1)).alias("rows")), around)
        return int(observation.get["rows"])

    def _refuse_leftovers(self, output: Output) -> None:
        local = local_checkpoint(self.pipeline)
        if local is None or (local / output.name).exists():
            return
        leftovers = output.sink.left_from_before(self.surroundings(Phase.LIVE))
        if leftovers is not None:
            raise ConfigError(
                f"the checkpoint of {self.pipeline.name} is new, but {leftovers}. "
                f"'ruslo pipeline reset {self.pipeline.path} --outputs delete' removes what was written, "
                "'--outputs keep' only the log"
            )

    def _refuse_functions_over_connect(self, output: Output) -> None:
        """Our guess: writes of such a process lack the batch's number, by which a repetition is told."""
        if self.pipeline.is_stream and is_connect(self._spark) and output.sink.calls_function(output.mode):
            raise ConfigError(
                f"sink {output.name!r} of {self.pipeline.name} ({output.sink.TYPE}, mode {output.mode}) is "
                "written by a function that Spark calls with each batch. A Spark Connect server does so in a "
                "process of its own, for which nothing is promised: name the cluster itself with --master, "
                "or write to a topic with 'mode: append'"
            )
