"""Repeated kill -9 in the middle of compaction: the last value of every key survives."""

from __future__ import annotations

import random
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ruslo.storage.local_disk import LocalDisk
from ruslo.storage.verify import PartitionCheck
from tests.support.brokers.ruslo import RusloNode
from tests.support.clients.librdkafka import new_reader

KILLS = 6
TOPIC = "compacted"
KEYS = 300
VALUE_BYTES = 2000
SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "50",
}
# So slow that a run takes about as long as the node lives.
PROPERTIES = {
    "log.cleaner.backoff.ms": "1",
    "log.cleaner.io.max.bytes.per.second": "20000000",
    "log.flush.offset.checkpoint.interval.ms": "50",
}


def write(bootstrap: str, source: random.Random, values: dict[bytes, bytes], count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "compression.type": "lz4"})
    for _ in range(count):
        key = b"key-%d" % source.randrange(KEYS)
        values[key] = b"%d " % source.getrandbits(60) + source.randbytes(VALUE_BYTES)
        producer.produce(TOPIC, values[key], key)
    assert producer.flush(60) == 0


def read(bootstrap: str) -> list[tuple[bytes | None, bytes | None]]:
    """All records, from the first to the end of the log."""
    consumer: Consumer = new_reader(bootstrap, {"enable.partition.eof": True})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        found.append((message.key(), message.value()))
    assert message is not None
    consumer.close()
    return found


def last_base(log: Path) -> int:
    return max(int(path.stem) for path in log.glob("*.log"))


def test_kill_9_during_compaction(tmp_path: Path) -> None:
    source = random.Random(11)
    values: dict[bytes, bytes] = {}
    node = RusloNode(tmp_path, properties=PROPERTIES)
    interrupted = 0
    node.start()
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=SETTINGS)])[TOPIC].result(30)
    log = node.data_dirs[0] / f"{TOPIC}-0"
    try:
        for _ in range(KILLS):
            write(node.bootstrap, source, values, 1500)
            assert dict(read(node.bootstrap)) == values
            time.sleep(source.random() * 0.2)
            node.kill()
            interrupted += any(path.suffix in (".cleaned", ".swap", ".deleted") for path in log.iterdir())
            node.start()
            assert dict(read(node.bootstrap)) == values
        write(node.bootstrap, source, values, 1500)
        checkpoint = node.data_dirs[0] / "cleaner-offset-checkpoint"
        deadline_s = time.monotonic() + 60
        while (
            f"{TOPIC} 0 {max(int(path.stem) for path in log.glob('*.log'))}\n" not in checkpoint.read_text()
        ):
            assert time.monotonic() < deadline_s, node.log_tail()
            time.sleep(0.1)
        found = read(node.bootstrap)
        assert dict(found) == values
        # Each key once, except for what the active segment repeats.
        assert len(found) < 2 * KEYS + 600
    finally:
        node.stop()
    assert interrupted >= KILLS // 2
    assert PartitionCheck(LocalDisk(str(node.data_dirs[0])), str(log)).run().findings == []
    assert "cannot be compacted" not in node.log_file.read_text()
