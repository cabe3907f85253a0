from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.model.topics import TopicPartition
from ruslo.pipeline.sink.batch_encoder import EncodedBatch
from ruslo.pipeline.sink.identity import BatchIdentity, JobIdentity
from ruslo.pipeline.sink.options import SinkOptions
from ruslo.pipeline.sink.staging import Stage, StagingPlace, TaskBatch
from ruslo.pipeline.sink.transaction import commit_staged, transaction_timeout_ms
from ruslo.pipeline.staged_letters import LetterBox, about
from ruslo.records.builder import build_batch
from ruslo.records.record import Record
from ruslo.testing import EmbeddedBroker
from tests.support.checks.cli_checks import Cli


@pytest.mark.parametrize(
    ("size", "timeout_ms"),
    [(0, 60_000), (10_000_000, 60_000), (120_000_000, 120_000), (100_000_000_000, 900_000)],
)
def test_large_transactions_get_more_time(size: int, timeout_ms: int) -> None:
    assert transaction_timeout_ms(size) == timeout_ms


def test_a_new_checkpoint_is_another_producer_and_another_marker() -> None:
    """It begins at batch 0 again, which must not be taken for a batch that was written."""
    one, other = BatchIdentity("sink", "checkpoint-1", 0), BatchIdentity("sink", "checkpoint-2", 0)
    assert one.transactional_id != other.transactional_id
    assert one.marker_group != other.marker_group
    assert one.query_folder != other.query_folder


def test_batches_of_a_query_share_all_but_the_folder() -> None:
    one, other = BatchIdentity("sink", "q", 1), BatchIdentity("sink", "q", 2)
    assert one.transactional_id == other.transactional_id
    assert one.marker_group == other.marker_group
    assert one.staging_folder != other.staging_folder


def test_jobs_have_nothing_in_common() -> None:
    one, other = JobIdentity("sink", "1"), JobIdentity("sink", "2")
    assert one.transactional_id != other.transactional_id
    assert one.staging_folder != other.staging_folder


def test_letters_that_go_where_rows_go_replace_none_of_them(
    ruslo_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """As when rows that a query has refused itself go to the topic of those that cannot be decoded."""
    bootstrap, topic = ruslo_broker.bootstrap, "refused"

    async def create() -> None:
        async with Admin(bootstrap) as admin:
            await admin.topics.create([NewTopic(topic, partitions=1)])

    asyncio.run(create())
    place = StagingPlace.prepare(str(tmp_path))
    identity = BatchIdentity("sink", "query-with-letters", 0)
    stage = Stage(place, "task", 0)
    stage.add(EncodedBatch(TopicPartition(topic, 0), build_batch([Record(0, 1000, None, b"a row")]), 1))
    box = LetterBox.of(place.location, identity, "run")
    letter = Record(0, 1000, None, b"a letter", about(TopicPartition("orders", 0), 7, "not JSON"))
    box.put([letter])
    options = SinkOptions.parse(
        {
            "kafka.bootstrap.servers": bootstrap,
            "topic": topic,
            "deadLetterTopic": topic,
            "stagingPath": place.location,
            "sinkName": "sink",
        }
    )
    assert commit_staged(options, place.location, identity, [stage.close(TaskBatch())], box)
    found = Cli(bootstrap).lines("consume", topic, "--exit", "-X", "isolation.level=read_committed")
    assert [line["value"] for line in found] == ["a row", "a letter"]
