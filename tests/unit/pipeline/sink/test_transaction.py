from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.dead_letters.staging import DeadLetterStaging
from ruslo.pipeline.sink.options import SinkOptions
from ruslo.pipeline.sink.transaction import commit_staged, transaction_timeout_ms
from ruslo.pipeline.staging.folder import StagingFolder
from ruslo.pipeline.staging.identity import BatchIdentity, JobIdentity, TaskBatch
from ruslo.pipeline.staging.staged_rows import Stage
from ruslo.records.builder import build_batch
from ruslo.records.record import Record
from ruslo.runs.dead_letters import origin_headers
from ruslo.testing import EmbeddedBroker
from tests.support.checks.cli_checks import Cli


@pytest.mark.parametrize(
    ("size", "timeout_ms"),
    [(0, 60_000), (10_000_000, 60_000), (120_000_000, 120_000), (100_000_000_000, 900_000)],
)
def test_large_transactions_get_a_longer_timeout(size: int, timeout_ms: int) -> None:
    assert transaction_timeout_ms(size) == timeout_ms


def test_a_new_checkpoint_has_its_own_producer_and_marker() -> None:
    """It starts at batch 0 again, which must not count as already written."""
    one, other = BatchIdentity("sink", "checkpoint-1", 0), BatchIdentity("sink", "checkpoint-2", 0)
    assert one.transactional_id != other.transactional_id
    assert one.marker_group != other.marker_group
    assert one.query_folder != other.query_folder


def test_batches_of_a_query_differ_only_in_their_staging_folder() -> None:
    one, other = BatchIdentity("sink", "q", 1), BatchIdentity("sink", "q", 2)
    assert one.transactional_id == other.transactional_id
    assert one.marker_group == other.marker_group
    assert one.staging_folder != other.staging_folder


def test_jobs_share_no_names() -> None:
    one, other = JobIdentity("sink", "1"), JobIdentity("sink", "2")
    assert one.transactional_id != other.transactional_id
    assert one.staging_folder != other.staging_folder


def test_rows_and_dead_letters_may_go_to_the_same_partition(
    ruslo_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """A query may write rows that it rejects to its dead-letter topic."""
    bootstrap, topic = ruslo_broker.bootstrap, "refused"

    async def create() -> None:
        async with Admin(bootstrap) as admin:
            await admin.topics.create([NewTopic(topic, partitions=1)])

    asyncio.run(create())
    folder = StagingFolder.prepare(str(tmp_path))
    identity = BatchIdentity("sink", "query-with-dead-letters", 0)
    stage = Stage(folder, "task", 0)
    stage.add(TopicPartition(topic, 0), build_batch([Record(0, 1000, None, b"a row")]))
    dead_letters = DeadLetterStaging.of(folder.location, identity, "run")
    headers = origin_headers(TopicPartition("orders", 0), 7, "not JSON")
    dead_letters.add([Record(0, 1000, None, b"a dead letter", headers)])
    options = SinkOptions.parse(
        {
            "kafka.bootstrap.servers": bootstrap,
            "topic": topic,
            "deadLetterTopic": topic,
            "stagingPath": folder.location,
            "sinkName": "sink",
        }
    )
    assert commit_staged(options, folder.location, identity, [stage.close(TaskBatch())], dead_letters)
    found = Cli(bootstrap).lines("consume", topic, "--exit", "-X", "isolation.level=read_committed")
    assert [line["value"] for line in found] == ["a row", "a dead letter"]
