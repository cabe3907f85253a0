"""The same logs compacted by Ruslo and by Apache Kafka are equal, and Kafka continues with ours."""

from __future__ import annotations

import random
import re
import shutil
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ruslo.records.batch import DELETE_HORIZON
from ruslo.records.reader import iter_batches, read_records
from ruslo.storage.local_disk import LocalDisk
from ruslo.storage.verify import PartitionCheck
from tests.support.brokers.kafka import ApacheKafka
from tests.support.brokers.node import Node
from tests.support.brokers.ruslo import RusloNode
from tests.support.clients.librdkafka import read_records as consume
from tests.support.tools.java_tools import run_tool
from tests.support.tools.programs import require_tool

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
TRANSACTIONAL = "transactional"
TOPICS = [*(f"codec-{codec}" for codec in CODECS), TRANSACTIONAL]
SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "86400000",
}
CLEANER = {"log.cleaner.backoff.ms": "200", "offsets.topic.num.partitions": "1"}
VALUE_BYTES = 2000


def write(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(name, 1, 1, config=SETTINGS) for name in TOPICS]).values():
        created.result(30)
    for codec in CODECS:
        chance = random.Random(codec)
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "compression.type": codec})
        for number in range(1500):
            value = None if chance.random() < 0.05 else chance.randbytes(VALUE_BYTES)
            producer.produce(f"codec-{codec}", value, b"key-%d" % chance.randrange(200))
            if number % 60 == 0:
                producer.flush()
        producer.flush()
    chance = random.Random(1)
    transactional = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t", "linger.ms": 5})
    transactional.init_transactions(30)
    for number in range(40):
        transactional.begin_transaction()
        for _ in range(30):
            transactional.produce(TRANSACTIONAL, chance.randbytes(VALUE_BYTES), b"%d" % chance.randrange(50))
        if number % 4:
            transactional.commit_transaction(30)
        else:
            transactional.abort_transaction(30)


class Batch(NamedTuple):
    """The fields of a compacted batch that must be equal in both systems."""

    base_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    flags: int
    has_horizon: bool
    max_timestamp: int
    records: tuple[object, ...]


def batches(data_dir: Path, topic: str) -> list[Batch]:
    found = []
    for path in sorted((data_dir / f"{topic}-0").glob("*.log")):
        data = path.read_bytes()
        for position, header in iter_batches(data):
            found.append(
                Batch(
                    header.base_offset,
                    header.last_offset,
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    header.attributes & ~DELETE_HORIZON,
                    bool(header.attributes & DELETE_HORIZON),
                    header.max_timestamp,
                    tuple(read_records(data[position : position + header.size])),
                )
            )
    return found


def wait_until_compacted(node: Node) -> None:
    """Wait until every topic is in the cleaner's checkpoint."""
    path = node.data_dirs[0] / "cleaner-offset-checkpoint"
    deadline_s = time.monotonic() + 90
    while time.monotonic() < deadline_s:
        text = path.read_text() if path.exists() else ""
        if all(re.search(rf"^{topic} 0 [1-9]", text, re.MULTILINE) for topic in TOPICS):
            return
        time.sleep(0.2)
    raise AssertionError(f"not all is compacted: {text}\n{node.log_tail()}")


class Compacted(NamedTuple):
    before: Path
    ruslo: RusloNode
    kafka: ApacheKafka


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Compacted:
    """One data directory, and a copy compacted by each system."""
    require_tool("java")
    folder = tmp_path_factory.mktemp("compaction")
    origin = RusloNode(folder / "origin", properties={**CLEANER, "log.cleaner.enable": "false"})
    with origin:
        write(origin.bootstrap)
    nodes = []
    for kind in (RusloNode, ApacheKafka):
        directory = folder / kind.name.replace(" ", "-")
        shutil.copytree(origin.data_dirs[0], directory / "data")
        node = kind(directory, properties=CLEANER)
        with node:
            wait_until_compacted(node)
        nodes.append(node)
    ruslo, kafka = nodes
    assert isinstance(ruslo, RusloNode)
    assert isinstance(kafka, ApacheKafka)
    return Compacted(origin.data_dirs[0], ruslo, kafka)


@pytest.mark.parametrize("topic", TOPICS)
def test_both_keep_the_same_batches(compacted: Compacted, topic: str) -> None:
    ours = batches(compacted.ruslo.data_dirs[0], topic)
    theirs = batches(compacted.kafka.data_dirs[0], topic)
    before = batches(compacted.before, topic)
    assert sum(len(batch.records) for batch in ours) < sum(len(batch.records) for batch in before) / 1.5
    assert ours == theirs


def test_ruslo_log_verify_finds_no_damage(compacted: Compacted) -> None:
    for node in (compacted.ruslo, compacted.kafka):
        for topic in TOPICS:
            path = str(node.data_dirs[0] / f"{topic}-0")
            assert PartitionCheck(LocalDisk(str(node.data_dirs[0])), path).run().findings == []


def test_kafkas_dump_tool_finds_no_damage(compacted: Compacted) -> None:
    folder = compacted.ruslo.data_dirs[0]
    files = [
        str(path)
        for topic in TOPICS
        for path in sorted((folder / f"{topic}-0").iterdir())
        if path.suffix in (".log", ".index", ".timeindex", ".txnindex") and path.stat().st_size
    ]
    result = run_tool(
        "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(files), timeout=120
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("isvalid: true") > 100
    # Compaction leaves gaps between offsets; the tool lists each.
    complaints = re.findall(
        r".*(?:isvalid: false|ismatch|Exception|truncated).*", result.stdout + result.stderr
    )
    assert complaints == []


def test_kafka_continues_with_logs_that_ruslo_compacted(compacted: Compacted, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(compacted.ruslo.data_dirs[0], data)
    expected = {
        topic: [
            (record.offset, record.key, record.value)  # type: ignore[attr-defined]
            for batch in batches(data, topic)
            if not batch.flags & 0x20
            for record in batch.records
        ]
        for topic in TOPICS
    }
    with ApacheKafka(tmp_path, properties=CLEANER) as kafka:
        for topic in TOPICS:
            committed = expected[topic]
            found = consume(
                kafka.bootstrap, topic, 1, len(committed), settings={"isolation.level": "read_uncommitted"}
            )
            assert [(each.offset(), each.key(), each.value()) for each in found] == committed
        log = kafka.log_file.read_text()
    assert "Found invalid messages" not in log
    assert "Resetting first dirty offset" not in log
    assert not list(data.glob("*-stray"))
