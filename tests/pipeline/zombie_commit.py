"""Runs a driver's commit in its own process, which a test can pause and continue.

python -m tests.pipeline.zombie_commit BOOTSTRAP TOPIC STAGING BATCHES
"""

from __future__ import annotations

import sys

from ruslo.model.topics import TopicPartition
from ruslo.pipeline.sink.options import SinkOptions
from ruslo.pipeline.sink.transaction import commit_staged
from ruslo.pipeline.staging.folder import StagingFolder
from ruslo.pipeline.staging.identity import BatchIdentity, TaskBatch
from ruslo.pipeline.staging.staged_rows import Stage, StagedRows
from ruslo.records.builder import build_batch
from ruslo.records.record import Record

BATCH_ID = 5


def commit(bootstrap: str, topic: str, staging: str, batches: int, batch_id: int = BATCH_ID) -> bool:
    options = SinkOptions.parse({"kafka.bootstrap.servers": bootstrap, "topic": topic})
    folder = StagingFolder.prepare(staging)
    staged = stage(folder, topic, batches)
    identity = BatchIdentity("sink", f"query-of-{topic}", batch_id)
    return commit_staged(options, folder.location, identity, [staged])


def stage(folder: StagingFolder, topic: str, batches: int) -> StagedRows:
    """Batches of 100 KB, each with one numbered record."""
    stage = Stage(folder, "task", 0)
    for number in range(batches):
        record = Record(0, 1000, b"%d" % number, bytes(100_000))
        stage.add(TopicPartition(topic, 0), build_batch([record]))
    return stage.close(TaskBatch())


if __name__ == "__main__":
    commit(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
