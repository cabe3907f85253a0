"""The scenarios of one node. Each starts from an empty directory and returns figures by name."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from bench.ceiling import Ceiling
from bench.compaction_scenario import compaction
from bench.contenders import run_load, seconds_to_first_answer
from bench.group_scenario import groups
from bench.measure import GB, cpu_s, resident_mb, warm_memory
from bench.metrics_scenario import metrics
from bench.quota_scenario import quotas
from bench.security_scenario import acls, tls
from bench.setting import Figures, Setting, create_topics, delete_topics, running_node, wait_until_served
from bench.storm_scenario import storm
from bench.transaction_scenario import transactions
from tests.support.brokers.node import Node

PARTITIONS = 6
ROUNDS = 2  # the last one counts: the first warms the JVM, the caches and the pages
IDLE_S = 3.0


def throughput(setting: Setting, records: int, size: int) -> Figures:
    """Produce to a new topic, twice; consume the second topic, twice, in each of three ways."""
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
        if isinstance(node, Ceiling):
            return figures
        figures["memory_after_produce_mb"] = resident_mb(node.pid)
        for mode in ("consume", "group", "fetch"):
            for _ in range(ROUNDS):
                figures |= measured_load(setting, node, mode, topic, records, size)
        figures["memory_after_load_mb"] = resident_mb(node.pid)
    return figures


def measured_load(setting: Setting, node: Node, mode: str, topic: str, records: int, size: int) -> Figures:
    warm_memory(setting.warm_bytes)
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
            warm_memory(setting.warm_bytes)
            figures = run_load(setting.program, "latency", node, "latency", records, 100)
    return {f"ack_{key}": value for key, value in figures.items() if key.endswith("_ms")}


def start(setting: Setting) -> Figures:
    """From the start of the process to the first Metadata response (median of three), and idle memory."""
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


CEILING_SCENARIOS = ("latency", "records-1k", "records-100b", "transactions")

SCENARIOS: dict[str, Callable[[Setting], Figures]] = {
    "start": start,
    "latency": latency,
    "records-1k": records_of_1_kb,
    "records-100b": records_of_100_b,
    "partitions-4000": many_partitions,
    "groups": groups,
    "transactions": transactions,
    "compaction": compaction,
    "metrics": metrics,
    "tls": tls,
    "acls": acls,
    "quotas": quotas,
    "storm": storm,
}
