"""The writers that Spark calls: one for streams and one for batch jobs."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ruslo.model.errors import ConfigError
from ruslo.pipeline.dead_letters.staging import DeadLetterStaging
from ruslo.pipeline.sink.options import SinkOptions
from ruslo.pipeline.sink.schema import check_schema
from ruslo.pipeline.sink.transaction import commit_staged
from ruslo.pipeline.staging.files import open_files
from ruslo.pipeline.staging.folder import StagingFolder, remove_abandoned, remove_written
from ruslo.pipeline.staging.identity import BatchIdentity, JobIdentity, TaskBatch
from ruslo.pipeline.staging.staged_rows import Stage, StagedReader, StagedRows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from ruslo.pipeline.sink.batch_encoder import EncodedBatch


def new_stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """For writeStream. Output mode complete appends each result, as in Spark's Kafka sink."""
    return StreamWriter(_prepare(options, schema))


def new_batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """For write, which may also be called in foreachBatch."""
    if overwrite:
        raise ConfigError(
            'a topic cannot be overwritten: use mode("append"); `ruslo topic delete-records` empties a topic'
        )
    return BatchWriter(_prepare(options, schema), uuid.uuid4().hex)


@dataclass(frozen=True, slots=True)
class _Setup:
    """Prepared by the driver and sent to tasks."""

    options: SinkOptions
    staging: StagingFolder


def _prepare(options: Mapping[str, str], schema: StructType) -> _Setup:
    parsed = SinkOptions.parse(options)
    check_schema(schema, has_topic_option=parsed.topic is not None)
    return _Setup(parsed, StagingFolder.prepare(parsed.staging_path))


@dataclass(frozen=True, slots=True)
class Sent(WriterCommitMessage):
    """The result of a task that sent its records directly."""

    records: int


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, setup: _Setup) -> None:
        self._setup = setup

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        sink_name = self._setup.options.sink_name
        return _write(self._setup, iterator, lambda task: task.identity(sink_name).staging_folder)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        staged = _staged(messages)
        query_id = next((rows.task.query_id for rows in staged), None)
        if query_id is not None:
            _commit(self._setup, BatchIdentity(self._setup.options.sink_name, query_id, batchId), staged)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Clear the staging only: the next attempt finds out whether the transaction was committed."""
        StagedReader(self._setup.staging.location, _staged(messages)).remove()


class BatchWriter(DataSourceArrowWriter):
    """Writes a whole job in one transaction.

    In foreachBatch with option sinkName it is exactly once, as a stream is: the name separates the writes of
    one micro-batch, and the query's batch id detects repetitions.
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
        # A task that had not reported when another one failed may have staged rows.
        self._clear()

    def _identity(self, staged: Sequence[StagedRows]) -> BatchIdentity | JobIdentity:
        options = self._setup.options
        for rows in staged:
            if options.is_named and rows.task.query_id is not None and rows.task.batch_id is not None:
                return rows.task.identity(options.sink_name)
        return self._job

    def _clear(self) -> None:
        location = self._setup.staging.location
        open_files(location).remove(self._job.staging_folder)
        remove_abandoned(location, time.time())


def _commit(setup: _Setup, identity: BatchIdentity | JobIdentity, staged: Sequence[StagedRows]) -> None:
    """Runs on the driver: commit what was staged, then remove it."""
    location = setup.staging.location
    dead_letters = None
    if setup.options.dead_letter_topic is not None and isinstance(identity, BatchIdentity):
        dead_letters = DeadLetterStaging.of(location, identity, staged[0].task.run_id)
    commit_staged(setup.options, location, identity, staged, dead_letters)
    has_files = dead_letters is not None or any(rows.path for rows in staged)
    if has_files and isinstance(identity, BatchIdentity):
        remove_written(location, identity)


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[StagedRows]:
    """The results of tasks that staged rows; the message of a failed task is None."""
    return [message for message in messages if isinstance(message, StagedRows)]


def _write(
    setup: _Setup, iterator: Iterator[pa.RecordBatch], folder: Callable[[TaskBatch], str]
) -> WriterCommitMessage:
    """Runs in a task."""
    context = TaskContext.get()
    assert context is not None, "Spark calls write() in a task"
    if setup.options.staging_path is not None:
        # Fail now rather than with the first batch that needs a file.
        setup.staging.check_shared()
    if setup.options.delivery != "exactly_once":
        from ruslo.pipeline.sink.direct import send_directly

        return Sent(send_directly(setup.options.client, _encode(setup.options, iterator, context)))
    task = TaskBatch.of(context)
    name = f"{context.partitionId()}-{context.taskAttemptId()}-{uuid.uuid4().hex[:8]}.batches"
    stage = Stage(setup.staging, f"{folder(task)}/{name}", setup.options.memory_bytes)
    try:
        for batch in _encode(setup.options, iterator, context):
            stage.add(batch.target, batch.records)
        return stage.close(task)
    except BaseException:
        stage.discard()
        raise


def _encode(
    options: SinkOptions, iterator: Iterator[pa.RecordBatch], context: TaskContext
) -> Iterator[EncodedBatch]:
    # Imported here so that the driver does not load compiled code.
    from ruslo.pipeline.partition_counts import partition_count
    from ruslo.pipeline.sink.batch_encoder import BatchEncoder

    encoder = BatchEncoder(
        topic=options.topic,
        partition_count=lambda topic: partition_count(options.client, topic),
        batch_bytes=options.batch_bytes,
        codec=options.codec,
        level=options.level,
        now_ms=lambda: time.time_ns() // 1_000_000,
        seed=context.partitionId() + (TaskBatch.of(context).batch_id or 0),
    )
    for arrow in iterator:
        yield from encoder.add(arrow)
    yield from encoder.finish()
