"""Dead-letter staging: tasks of the source stage dead letters, the sink sends them in its transaction.

A task that Spark repeats stages its dead letters again, and so does a source that a query reads twice. Each
dead letter names its original record, so the sink sends one per record.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark import TaskContext

from ruslo.model.errors import StorageError
from ruslo.pipeline.staging.files import open_files
from ruslo.pipeline.staging.folder import check_prepared
from ruslo.pipeline.staging.identity import BatchIdentity, TaskBatch
from ruslo.records.reader import check_crc, iter_batches, read_records
from ruslo.records.record import Record
from ruslo.runs.dead_letters import origin_key, record_batches


@dataclass(frozen=True, slots=True)
class DeadLetterStaging:
    """The staged dead letters of one micro-batch in one run of its query."""

    location: str
    folder: str

    @classmethod
    def of(cls, location: str, identity: BatchIdentity, run_id: str) -> DeadLetterStaging:
        return cls(location, f"{identity.staging_folder}/dead-letters-{run_id}")

    @classmethod
    def of_task(cls, location: str, sink_name: str) -> DeadLetterStaging:
        """The staging of the micro-batch that the running task belongs to."""
        context = TaskContext.get()
        assert context is not None, "dead letters are staged in tasks"
        task = TaskBatch.of(context)
        return cls.of(location, task.identity(sink_name), task.run_id)

    def add(self, dead_letters: Sequence[Record]) -> None:
        check_prepared(self.location)
        file = open_files(self.location).create(f"{self.folder}/{uuid.uuid4().hex}.batches")
        for batch in record_batches(dead_letters):
            file.write(batch)
        file.close()

    def is_empty(self) -> bool:
        return not open_files(self.location).list(self.folder)

    def read(self) -> list[Record]:
        """Each dead letter once, sorted by origin. A truncated last batch of a killed task is ignored."""
        found: dict[tuple[bytes, int, int], Record] = {}
        files = open_files(self.location)
        for name in files.list(self.folder):
            path = f"{self.folder}/{name}"
            file = files.open(path)
            data = memoryview(file.read_at(files.size(path) or 0, 0))
            file.close()
            for at, header in iter_batches(data):
                batch = data[at : at + header.size]
                if not check_crc(batch):
                    raise StorageError(f"{path} in {self.location} is damaged: restart the query")
                found |= {origin_key(dead_letter): dead_letter for dead_letter in read_records(batch)}
        return [found[origin] for origin in sorted(found)]
