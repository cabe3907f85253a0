"""A driver's commit in a process of its own, which a test may stop in the middle and let go on later.

python -m tests.pipeline.zombie_commit BOOTSTRAP TOPIC STAGING BATCHES
"""

from __future__ import annotations

import sys

from ruslo.model.topics import TopicPartition
from ruslo.pipeline.sink.batch_encoder import EncodedBatch
from ruslo.pipeline.sink.identity import BatchIdentity
from ruslo.pipeline.sink.options import SinkOptions
from ruslo.pipeline.sink.staging import Stage, StagedRows, StagingPlace, TaskBatch
from ruslo.pipeline.sink.transaction import commit_staged
from ruslo.records.builder import build_batch
from ruslo.records.record import Record

BATCH_ID = 5


def commit(bootstrap: str, topic: str, staging: str, batches: int, batch_id: int = BATCH_ID) -> bool:
    options = SinkOptions.parse({"kafka.bootstrap.servers": bootstrap, "topic": topic})
    place = StagingPlace.prepare(staging)
    staged = stage(place, topic, batches)
    identity = BatchIdentity("sink", f"query-of-{topic}", batch_id)
    return commit_staged(options, place.location, identity, [staged])


def stage(place: StagingPlace, topic: str, batches: int) -> StagedRows:
    """Batches of 100 KB, each with one record that has a number."""
    stage = Stage(place, "task", 0)
    for number in range(batches):
        record = Record(0, 1000, b"%d" % number, bytes(100_000))
        stage.add(EncodedBatch(TopicPartition(topic, 0), build_batch([record]), 1))
    return stage.close(TaskBatch())


if __name__ == "__main__":
    commit(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
