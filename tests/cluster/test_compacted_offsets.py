"""Compaction of __consumer_offsets, and verification of a topic that is being served."""

from __future__ import annotations

import json
import time
from pathlib import Path

from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ruslo.cli.main import cli
from ruslo.testing import EmbeddedBroker
from tests.support.clients.librdkafka import Sent, produce_all

PARTITIONS = 200
PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": str(1 << 20),
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.segment.delete.delay.ms": "0",
}


def committing_consumer(broker: EmbeddedBroker) -> Consumer:
    return Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "billing", "enable.auto.commit": False}
    )


def test_committed_offsets_survive_the_compaction_of_their_log(tmp_path: Path) -> None:
    with EmbeddedBroker(PROPERTIES, data_dir=tmp_path / "data") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("orders", PARTITIONS, 1)])["orders"].result(30)
        consumer = committing_consumer(broker)
        log = broker.data_dir / "__consumer_offsets-0"
        offset = 0
        deadline_s = time.monotonic() + 60
        checkpoint = broker.data_dir / "cleaner-offset-checkpoint"
        while not checkpoint.exists() or "__consumer_offsets 0" not in checkpoint.read_text():
            assert time.monotonic() < deadline_s, [path.name for path in log.iterdir()]
            offset += 1
            wanted = [TopicPartition("orders", index, offset) for index in range(PARTITIONS)]
            consumer.commit(offsets=wanted, asynchronous=False)
        consumer.close()
        assert offset > 20
        assert (log / f"{0:020d}.log").stat().st_size < 200_000
        for end in (broker.stop, broker.kill):
            end()
            broker.start()
            consumer = committing_consumer(broker)
            found = consumer.committed([TopicPartition("orders", index) for index in range(PARTITIONS)], 30)
            assert {each.offset for each in found} == {offset}
            consumer.close()


def test_a_topic_that_is_served_can_be_verified() -> None:
    with EmbeddedBroker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(30)
        for codec in ("none", "zstd"):
            records = [Sent(b"v" * 100, b"%d" % number) for number in range(300)]
            produce_all(broker.bootstrap, "orders", records, {"compression.type": codec})
        arguments = ["log", "verify", "--topic", "orders", "-b", broker.bootstrap, "-o", "json"]
        result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        reports = json.loads(result.stdout)["partitions"]
        assert [each["path"] for each in reports] == ["orders-0", "orders-1"]
        assert sum(each["records"] for each in reports) == 600
        assert not any(each["findings"] for each in reports)
        missing = CliRunner().invoke(cli, [*arguments[:3], "nothing", *arguments[4:]])
        assert missing.exit_code == 1
