"""What Spark calls: a writer for streams and one for batch jobs, made by the data source."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from ruslo.model.errors import ConfigError
from ruslo.pipeline.sink.files import open_files
from ruslo.pipeline.sink.identity import BatchIdentity, JobIdentity
from ruslo.pipeline.sink.leftovers import remove_abandoned, remove_written
from ruslo.pipeline.sink.options import SinkOptions
from ruslo.pipeline.sink.schema import check_schema
from ruslo.pipeline.sink.staging import Stage, StagedReader, StagedRows, StagingPlace, TaskBatch
from ruslo.pipeline.sink.transaction import commit_staged
from ruslo.pipeline.staged_letters import BATCH_ID, QUERY_ID, LetterBox, run_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ruslo.pipeline.sink.batch_encoder import EncodedBatch


def new_stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """For writeStream. With output mode complete each result is appended, as in Spark's Kafka sink."""
    return StreamWriter(_prepare(options, schema))


def new_batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """For write, which may also stand in foreachBatch."""
    if overwrite:
        raise ConfigError(
            'a topic cannot be overwritten: use mode("append"); `ruslo topic delete-records` empties a topic'
        )
    return BatchWriter(_prepare(options, schema), uuid.uuid4().hex)


@dataclass(frozen=True, slots=True)
class _Setup:
    """What the driver found out, and tasks need."""

    options: SinkOptions
    place: StagingPlace

    @property
    def is_exactly_once(self) -> bool:
        return self.options.delivery == "exactly_once"


def _prepare(options: Mapping[str, str], schema: StructType) -> _Setup:
    parsed = SinkOptions.parse(options)
    check_schema(schema, has_topic_option=parsed.topic is not None)
    return _Setup(parsed, StagingPlace.prepare(parsed.staging_path))


@dataclass(frozen=True, slots=True)
class Sent(WriterCommitMessage):
    """The result of a task that has sent its records itself."""

    records: int


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, setup: _Setup) -> None:
        self._setup = setup

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        def folder(task: TaskBatch) -> str:
            if task.query_id is None or task.batch_id is None:
                raise RuntimeError(f"Spark has set no {QUERY_ID} and {BATCH_ID} for the task of a stream")
            return self._identity(task.query_id, task.batch_id).staging_folder

        return _write(self._setup, iterator, folder)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        staged = _staged(messages)
        query_id = next((rows.task.query_id for rows in staged), None)
        if query_id is not None:
            _commit(self._setup, self._identity(query_id, batchId), staged)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Only staging is cleared: what became of the transaction, the next attempt finds out."""
        StagedReader(self._setup.place.location, _staged(messages)).remove()

    def _identity(self, query_id: str, batch_id: int) -> BatchIdentity:
        return BatchIdentity(self._setup.options.sink_name, query_id, batch_id)


class BatchWriter(DataSourceArrowWriter):
    """One transaction for the whole job.

    In foreachBatch with option sinkName it is exactly once, as a stream: the name tells the writes of a batch
    apart, and the query's batch id tells repetitions.
    """

    def __init__(self, setup: _Setup, job_id: str) -> None:
        self._setup = setup
        self._job = JobIdentity(setup.options.sink_name, job_id)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(self._setup, iterator, lambda task: self._job.staging_folder)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        staged = _staged(messages)
        _commit(self._setup, self._identity(staged), staged)
        if any(rows.path is not None for rows in staged):
            self._clear()

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        # A task that had not reported yet when another one failed has staged all the same.
        self._clear()

    def _identity(self, staged: Sequence[StagedRows]) -> BatchIdentity | JobIdentity:
        options = self._setup.options
        for rows in staged:
            query_id, batch_id, _ = rows.task
            if options.is_named and query_id is not None and batch_id is not None:
                return BatchIdentity(options.sink_name, query_id, batch_id)
        return self._job

    def _clear(self) -> None:
        location = self._setup.place.location
        open_files(location).remove(self._job.staging_folder)
        remove_abandoned(location, time.time())


def _commit(setup: _Setup, identity: BatchIdentity | JobIdentity, staged: Sequence[StagedRows]) -> None:
    """Runs on the driver: write what was staged, and clear it away."""
    location = setup.place.location
    box = None
    if setup.options.dead_letter_topic is not None and isinstance(identity, BatchIdentity):
        box = LetterBox.of(location, identity, staged[0].task.run_id)
    commit_staged(setup.options, location, identity, staged, box)
    if isinstance(identity, BatchIdentity) and (box is not None or any(rows.path for rows in staged)):
        remove_written(location, identity)


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[StagedRows]:
    """The results of tasks that staged; None stands for a task that failed."""
    return [message for message in messages if isinstance(message, StagedRows)]


def _write(
    setup: _Setup,
    iterator: Iterator[pa.RecordBatch],
    folder: Callable[[TaskBatch], str],
) -> WriterCommitMessage:
    """Runs in a task."""
    context = TaskContext.get()
    assert context is not None, "Spark calls write() in a task"
    if setup.options.staging_path is not None:
        # Known to be needed some day: better to fail now than with the first large batch.
        setup.place.check_shared()
    if not setup.is_exactly_once:
        from ruslo.pipeline.sink.direct import send_directly

        return Sent(send_directly(setup.options.client, _encode(setup.options, iterator, context)))
    task = _batch_of(context)
    name = f"{context.partitionId()}-{context.taskAttemptId()}-{uuid.uuid4().hex[:8]}.batches"
    stage = Stage(setup.place, f"{folder(task)}/{name}", setup.options.memory_bytes)
    try:
        for batch in _encode(setup.options, iterator, context):
            stage.add(batch)
        return stage.close(task)
    except BaseException:
        stage.discard()
        raise


def _batch_of(context: TaskContext) -> TaskBatch:
    batch_text = context.getLocalProperty(BATCH_ID)
    batch_id = None if batch_text is None else int(batch_text)
    return TaskBatch(context.getLocalProperty(QUERY_ID), batch_id, run_of(context))


def _encode(
    options: SinkOptions, iterator: Iterator[pa.RecordBatch], context: TaskContext
) -> Iterator[EncodedBatch]:
    # Compiled code is only for tasks: the driver's side of the sink starts without it.
    from ruslo.pipeline.sink.batch_encoder import BatchEncoder
    from ruslo.pipeline.sink.partition_counts import partition_count

    encoder = BatchEncoder(
        topic=options.topic,
        partition_count=lambda topic: partition_count(options.client, topic),
        batch_bytes=options.batch_bytes,
        codec=options.codec,
        level=options.level,
        now_ms=lambda: time.time_ns() // 1_000_000,
        seed=context.partitionId() + (_batch_of(context).batch_id or 0),
    )
    for arrow in iterator:
        yield from encoder.add(arrow)
    yield from encoder.finish()
