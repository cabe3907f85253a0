"""What is measured. Each scenario starts from a fresh directory and returns figures by name."""

from __future__ import annotations

import contextlib
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from bench.contenders import run_load, seconds_to_first_answer
from bench.measure import GB, cpu_s, resident_mb
from tests.support.node import Node
from tests.support.wire import partitions_without_offsets

PARTITIONS = 6
ROUNDS = 2  # the last one counts: the first warms the JVM, the caches and the pages
IDLE_S = 3.0

Figures = dict[str, float]


@dataclass(frozen=True)
class Setting:
    """How a scenario is run: with which load program, where, and how much smaller than in full."""

    program: Path
    folder: Path
    divisor: int
    new_node: Callable[[Path], Node]


@contextlib.contextmanager
def running_node(setting: Setting) -> Iterator[Node]:
    """A node of the contender on an empty directory that is removed afterwards."""
    shutil.rmtree(setting.folder, ignore_errors=True)
    node = setting.new_node(setting.folder)
    try:
        yield node
    finally:
        node.kill()
        shutil.rmtree(setting.folder, ignore_errors=True)


def create_topics(node: Node, topics: dict[str, int]) -> None:
    """Create topics (name to partition count) in one request and return when every partition answers."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    wanted = [NewTopic(name, num_partitions=count, replication_factor=1) for name, count in topics.items()]
    for future in admin.create_topics(wanted, operation_timeout=60).values():
        future.result()
    wait_until_served(node, topics)


def wait_until_served(node: Node, topics: dict[str, int], timeout_s: float = 180) -> None:
    """Return when every partition answers; topic by topic, so that asking is not a load of its own."""
    deadline = time.monotonic() + timeout_s
    for topic, partitions in topics.items():
        while not is_served(node, {topic: partitions}):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{node.name} does not serve {topic}\n{node.log_tail(10)}")
            time.sleep(0.02)


def is_served(node: Node, topics: dict[str, int]) -> bool:
    try:
        return partitions_without_offsets("127.0.0.1", node.port, topics) == 0
    except OSError:  # it does not listen yet
        return False


def delete_topics(node: Node, names: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for future in admin.delete_topics(names, operation_timeout=60).values():
        future.result()


def throughput(setting: Setting, records: int, size: int) -> Figures:
    """Produce to a new topic, twice; consume the second topic, twice."""
    records //= setting.divisor
    figures: Figures = {}
    with running_node(setting) as node:
        node.start()
        for round_number in range(ROUNDS):
            topic = f"load-{round_number}"
            create_topics(node, {topic: PARTITIONS})
            figures |= measured_load(setting, node, "produce", topic, records, size)
            if round_number < ROUNDS - 1:
                delete_topics(node, [topic])
        figures["memory_after_produce_mb"] = resident_mb(node.pid)
        for _ in range(ROUNDS):
            figures |= measured_load(setting, node, "consume", topic, records, size)
        figures["memory_after_load_mb"] = resident_mb(node.pid)
    return figures


def measured_load(setting: Setting, node: Node, mode: str, topic: str, records: int, size: int) -> Figures:
    cpu_before_s = cpu_s(node.pid)
    figures = run_load(setting.program, mode, node, topic, records, size)
    cpu_used_s = cpu_s(node.pid) - cpu_before_s
    return {
        f"{mode}_mb_per_s": figures["mb_per_s"],
        f"{mode}_records_per_s": figures["records_per_s"],
        f"{mode}_cpu_s_per_gb": cpu_used_s / (figures["bytes"] / GB),
    }


def records_of_1_kb(setting: Setting) -> Figures:
    return throughput(setting, 2_000_000, 1024)


def records_of_100_b(setting: Setting) -> Figures:
    return throughput(setting, 10_000_000, 100)


def latency(setting: Setting) -> Figures:
    """One record of 100 bytes at a time, each waiting for the ack of the one before."""
    records = 20_000 // setting.divisor
    with running_node(setting) as node:
        node.start()
        create_topics(node, {"latency": 1})
        for _ in range(ROUNDS):
            figures = run_load(setting.program, "latency", node, "latency", records, 100)
    return {f"ack_{key}": value for key, value in figures.items() if key.endswith("_ms")}


def start(setting: Setting) -> Figures:
    """From the start of the process to the first Metadata answer (median of three), and memory when idle."""
    seconds = []
    with running_node(setting) as node:
        for attempt in range(3):
            if attempt:
                node.stop()
            seconds.append(seconds_to_first_answer(node))
        time.sleep(IDLE_S)
        return {"start_s": statistics.median(seconds), "memory_idle_mb": resident_mb(node.pid)}


def many_partitions(setting: Setting) -> Figures:
    """4,000 partitions in 40 topics: created, served again after a clean restart, and their memory."""
    topics = {f"many-{number:02}": 100 for number in range(40)}
    with running_node(setting) as node:
        node.start()
        begin = time.monotonic()
        create_topics(node, topics)
        created_s = time.monotonic() - begin
        node.stop(timeout_s=120)
        begin = time.monotonic()
        node.launch()
        wait_until_served(node, topics)
        ready_s = time.monotonic() - begin
        time.sleep(IDLE_S)
        return {
            "partitions_created_s": created_s,
            "partitions_ready_s": ready_s,
            "partitions_memory_mb": resident_mb(node.pid),
        }


SCENARIOS: dict[str, Callable[[Setting], Figures]] = {
    "start": start,
    "latency": latency,
    "records-1k": records_of_1_kb,
    "records-100b": records_of_100_b,
    "partitions-4000": many_partitions,
}
