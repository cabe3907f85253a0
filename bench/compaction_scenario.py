"""The cost of compaction: how fast a log of updates is compacted, and the latency of producers meanwhile.

The log is written before with compaction held back by its dirty ratio; then the ratio is lowered. A cleaner's
own processor time is that of Ruslo's cleaner process, or of Kafka's cleaner thread.
"""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import fmean

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from bench.contenders import run_load
from bench.measure import MB, cleaner_cpu_s
from bench.setting import Figures, Setting, create_topics, running_node, wait_until_served
from tests.support.brokers.node import Node

SMALL, LARGE, WIDE = "small", "large", "wide"
TOPICS = {
    # value bytes, keys, records
    SMALL: (100, 100_000, 3_000_000),
    LARGE: (1000, 100_000, 400_000),
    WIDE: (100, 1_000_000, 3_000_000),
}
SEGMENT_BYTES = 100 << 20
DELETED_SHARE = 0.01
PROBE_RECORDS, QUIET_PROBES = 3_000, 5
NOT_YET, AT_ONCE = "1.0", "0.001"


def compaction(setting: Setting) -> Figures:
    figures: Figures = {}
    with running_node(setting) as node:
        node.start()
        create_topics(node, {"probe": 1})
        for topic, (size, keys, records) in TOPICS.items():
            make_topic(node, topic, max(SEGMENT_BYTES // setting.divisor, 1 << 20))
            write_updates(node, topic, size, keys // setting.divisor, records // setting.divisor)
        quiet_ms = [probe(setting, node) for _ in range(QUIET_PROBES)]
        for topic in TOPICS:
            begun, done = threading.Event(), threading.Event()
            with ThreadPoolExecutor(1) as beside:
                meanwhile = (
                    beside.submit(probe_between, begun, done, setting, node) if topic == WIDE else None
                )
                try:
                    size, elapsed_s, used_s = compact(node, topic, begun)
                finally:
                    done.set()
                    begun.set()
                figures[f"{topic}_mb_per_s"] = size / MB / elapsed_s
                figures[f"{topic}_mb_per_cpu_s"] = size / MB / used_s
                if meanwhile is not None:
                    figures["produce_p99_slowdown"] = fmean(meanwhile.result()) / fmean(quiet_ms)
    return figures


def make_topic(node: Node, topic: str, segment_bytes: int) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": str(segment_bytes),
        "min.cleanable.dirty.ratio": NOT_YET,
    }
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(30)
    wait_until_served(node, {topic: 1})


def write_updates(node: Node, topic: str, size: int, keys: int, records: int) -> None:
    chance = random.Random(topic)
    values = [chance.randbytes(size) for _ in range(64)]
    producer = Producer(
        {"bootstrap.servers": node.bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 500_000}
    )
    for number in range(records):
        key = b"key-%08d" % chance.randrange(keys)
        value = None if chance.random() < DELETED_SHARE else values[number & 63]
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 5000 == 0:
            producer.poll(0)
    producer.flush()


def compact(node: Node, topic: str, begun: threading.Event) -> tuple[int, float, float]:
    """Compact the log; returns the bytes read, the seconds it took, and the CPU seconds used."""
    folder = node.data_dirs[0] / f"{topic}-0"
    closed = sorted(folder.glob("*.log"))[:-1]
    size = sum(path.stat().st_size for path in closed)
    end = int(sorted(folder.glob("*.log"))[-1].stem)
    before_s = cleaner_cpu_s(node.pid)
    set_ratio(node, topic, AT_ONCE)
    begin_s: float | None = None
    deadline_s = time.monotonic() + 300
    checkpoint = node.data_dirs[0] / "cleaner-offset-checkpoint"
    while not checkpoint.exists() or f"{topic} 0 {end}\n" not in checkpoint.read_text():
        if begin_s is None and cleaner_cpu_s(node.pid) > before_s:
            # It has seen it: the pause between two looks does not count.
            begin_s = time.monotonic()
            begun.set()
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{node.name} does not compact {topic}\n{node.log_tail(10)}")
        time.sleep(0.01)
    elapsed_s = time.monotonic() - (begin_s or time.monotonic())
    used_s = cleaner_cpu_s(node.pid) - before_s
    set_ratio(node, topic, NOT_YET)
    return size, max(elapsed_s, 0.01), used_s


def set_ratio(node: Node, topic: str, ratio: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    entry = ConfigEntry("min.cleanable.dirty.ratio", ratio, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def probe_between(begun: threading.Event, done: threading.Event, setting: Setting, node: Node) -> list[float]:
    """Probe repeatedly while a log is compacted, from reading keys to syncing segments.

    Not before: detecting the start polls the processes of the machine, which would distort the probes.
    """
    begun.wait()
    found = [probe(setting, node)]
    while not done.is_set():
        found.append(probe(setting, node))
    return found


def probe(setting: Setting, node: Node) -> float:
    """Produce one record at a time; returns the 99th percentile of the ack latency."""
    # The cleaner goes behind all others of its session. In another one the client would wait for processors
    # itself; what is asked here is how long the broker makes it wait.
    figures = run_load(setting.program, "latency", node, "probe", PROBE_RECORDS, 100, own_session=False)
    return figures["p99_ms"]
