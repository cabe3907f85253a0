"""Our recovery of logs that Apache Kafka wrote rebuilds its files byte for byte."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ruslo.config.log_config import LogConfig
from ruslo.model.clock import SystemClock
from ruslo.model.topics import TopicPartition
from ruslo.storage.log import Log
from ruslo.storage.log_manager import LogManager
from tests.support.brokers.kafka import ApacheKafka
from tests.support.tools.programs import require_tool

SETTINGS = {"segment.bytes": "1048576", "index.interval.bytes": "2048"}
CONFIG = LogConfig(segment_bytes=1 << 20, index_interval_bytes=2048)
TOPICS = ("plain", "transactional")


def fill(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(topic, 1, 1, config=SETTINGS) for topic in TOPICS]).values():
        created.result(30)
    plain = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1})
    an_hour_ago = SystemClock().now_ms() - 3_600_000
    for number in range(6000):
        # Some timestamps decrease.
        timestamp = an_hour_ago + number * 10 - (number % 7) * 1000
        plain.produce("plain", os.urandom(500), timestamp=timestamp)
        if number % 20 == 0:
            plain.poll(0)
            plain.flush()
    plain.flush()
    transactional = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t", "linger.ms": 1})
    transactional.init_transactions(30)
    for number in range(60):
        transactional.begin_transaction()
        for _ in range(60):
            transactional.produce("transactional", os.urandom(600))
        transactional.flush()
        if number % 3:
            transactional.commit_transaction(30)
        else:
            transactional.abort_transaction(30)
    transactional.begin_transaction()
    transactional.produce("transactional", b"left open")
    transactional.flush()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a Kafka broker after a clean shutdown."""
    require_tool("java")
    directory = tmp_path_factory.mktemp("kafka")
    properties = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    with ApacheKafka(directory, properties=properties) as kafka:
        fill(kafka.bootstrap)
        kafka.stop()
        return kafka.data_dirs[0]


def load(data: Path, tmp_path: Path, *, clean: bool) -> LogManager:
    copy = tmp_path / "data"
    shutil.copytree(data, copy)
    if not clean:
        (copy / ".kafka_cleanshutdown").unlink()
        (copy / "recovery-point-offset-checkpoint").unlink()
        for path in copy.glob("*/*"):
            if path.name.endswith((".index", ".timeindex", ".txnindex")):
                path.unlink()
    manager = LogManager.open([str(copy)], SystemClock())
    manager.load(lambda topic: CONFIG if topic in TOPICS else LogConfig())
    return manager


def log_of(manager: LogManager, topic: str) -> Log:
    log = manager.get(TopicPartition(topic, 0))
    assert log is not None
    return log


@pytest.mark.parametrize("topic", TOPICS)
def test_recovery_rebuilds_the_same_indexes(data: Path, tmp_path: Path, topic: str) -> None:
    manager = load(data, tmp_path, clean=False)
    log = log_of(manager, topic)
    assert len(log.segments) > 2
    manager.stop(1)
    ours, theirs = Path(log.path), data / f"{topic}-0"
    compared = set()
    for path in theirs.iterdir():
        if path.suffix in (".log", ".index", ".timeindex", ".txnindex"):
            assert (ours / path.name).read_bytes() == path.read_bytes(), path.name
            compared.add(path.suffix)
    assert {".log", ".index", ".timeindex"} <= compared
    assert (".txnindex" in compared) == (topic == "transactional")
    assert (ours / "leader-epoch-checkpoint").read_bytes() == (
        theirs / "leader-epoch-checkpoint"
    ).read_bytes()


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("clean", [True, False])
def test_producers_and_offsets_are_found(data: Path, tmp_path: Path, topic: str, clean: bool) -> None:
    manager = load(data, tmp_path, clean=clean)
    log = log_of(manager, topic)
    assert manager.was_clean == clean
    snapshot = f"{log.end_offset:020d}.snapshot"
    (entry,) = log.producers.entries.values()
    if topic == "plain":
        assert log.end_offset == 6000
        assert log.last_stable_offset == 6000
        assert entry.next_sequence == 6000
    else:
        assert log.end_offset == 60 * 61 + 1
        assert log.producers.open_transactions() == [(60 * 61, entry.producer_id)]
        assert log.last_stable_offset == 60 * 61
        assert len(log.aborted_transactions(0, log.end_offset)) == 20
    # A new producer snapshot has the same bytes as Kafka's.
    manager.stop(1)
    assert (Path(log.path) / snapshot).read_bytes() == (data / f"{topic}-0" / snapshot).read_bytes()
