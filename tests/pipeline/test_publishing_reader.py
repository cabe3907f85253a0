"""A stream that publishes its progress as a consumer group, and continues if it cannot."""

from __future__ import annotations

import logging
import pickle

import pytest
from confluent_kafka import Consumer

from ruslo.pipeline.source.publishing_reader import PublishingReader
from ruslo.testing import EmbeddedBroker
from tests.pipeline.source_topics import new_topic, parse, produce, schema_of
from tests.support.checks.cli_checks import Cli


@pytest.fixture(scope="module")
def bootstrap(ruslo_broker: EmbeddedBroker) -> str:
    return ruslo_broker.bootstrap


def new_reader(bootstrap: str, topic: str, group: str) -> PublishingReader:
    """A reader that was pickled and unpickled, as in Spark's process beside the driver."""
    settings = {"subscribe": topic, "startingOffsets": "earliest", "group.id": group}
    options = parse(bootstrap, streaming=True, **settings)
    reader: PublishingReader = pickle.loads(pickle.dumps(PublishingReader(options, schema_of(options))))
    return reader


def test_a_batch_is_published_when_the_next_one_is_planned(bootstrap: str) -> None:
    topic = new_topic(bootstrap)
    produce(bootstrap, topic, [b"1", b"2", b"3"])
    reader = new_reader(bootstrap, topic, f"{topic}-group")

    def lag() -> int:
        (described,) = Cli(bootstrap).json("group", "describe", f"{topic}-group")
        (row,) = described["partitions"]
        return int(row["lag"])

    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert lag() == 3
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end
    assert lag() == 0
    reader.stop()


def test_a_group_with_members_is_not_changed_and_the_stream_continues(
    bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(bootstrap)
    produce(bootstrap, topic, [b"1", b"2", b"3"])
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"{topic}-group", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    assert len(consumer.consume(3, timeout=60)) == 3
    reader = new_reader(bootstrap, topic, f"{topic}-group")
    start = reader.initialOffset()
    with caplog.at_level(logging.WARNING):
        ends = [reader.latestOffset(start, reader.getDefaultReadLimit()) for _ in range(2)]
    assert ends[0] == ends[1] != start
    (logged,) = [line.message for line in caplog.records if "cannot publish" in line.message]
    assert logged.startswith(f"cannot publish the progress of group {topic}-group")
    reader.stop()
    consumer.close()
